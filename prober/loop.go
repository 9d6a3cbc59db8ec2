package prober

import (
	"fmt"
	"runtime"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// loop is the measuring loop of one connection: its buffers are made before the
// first bounce, and between the first and the last it allocates, locks and logs
// nothing.
type loop struct {
	c      *conn
	clk    *stopwatch
	layout wire.Layout
	msg    wire.Message
	req    []byte
	reply  []byte
	id     uint32
	quick  bool // TCP_QUICKACK after each reply
	until  int64

	period int64 // ns; 0: back to back
	burst  int

	rows rows
}

// stretch is what one window asks of the loop.
type stretch struct {
	end   int64 // monotonic ns at which no further bounce starts; 0: never
	count int   // bounces after which it ends
	keep  bool  // false: a warm-up, whose bounces are measured and forgotten
}

// yieldEvery is how long the loop goes on without giving way to the Go scheduler.
// A goroutine that the runtime has seen running for 10 ms without having been
// scheduled is to be preempted. As this one is nearly always in ppoll, its P is
// taken away there instead, bounce after bounce, by the runtime's monitor thread,
// which then wakes every 20 us: some 5 % more CPU time per bounce at an RTT of
// 60 us, half as much again at 360 us. Giving way in time, outside of the timed
// part, leaves the monitor asleep. (With GOMAXPROCS=1 it takes the P away from any
// call that lasts longer than its tick, and nothing here can help.)
const yieldEvery = int64(4 * time.Millisecond)

// badID is a reply that answers another request than the one outstanding.
type badID struct{ got, want uint32 }

func (e *badID) Error() string {
	return fmt.Sprintf("the reply has the id %d, outstanding was %d", e.got, e.want)
}

// run bounces until the stretch ends. Stamps are taken right before the write and
// right after the whole reply was read; everything else stands outside of that.
func (l *loop) run(w *Window, s stretch) error {
	var (
		b     Sample
		start = l.clk.mono()
		tick  = start // when the current burst is due
		now   = start
		got   = 0
		yield = start + yieldEvery
		room  = int64(0) // before the deadline, for a bounce that takes twice as long as the last
	)
	w.Start = start
	for got < s.count && (s.end == 0 || now < s.end && now+room < l.until) {
		if now >= yield {
			runtime.Gosched()
			yield = now + yieldEvery
		}
		if l.period > 0 && got > 0 && got%l.burst == 0 {
			// The schedule is absolute: a tick that has passed while its predecessor's
			// bounces were under way is left out, never made up for.
			missed := (now - tick) / l.period
			tick += (missed + 1) * l.period
			w.SkippedTicks += int(missed)
			if s.end != 0 && (tick >= s.end || tick+room >= l.until) {
				break
			}
			if err := l.c.sleepUntil(tick, now, l.until); err != nil {
				return err
			}
		}
		l.id++
		b.SentWall, b.Sent = l.clk.now()
		l.msg.Patch(l.req, l.id, wire.StampFromUnixNano(b.SentWall))
		w.Requests++
		if _, err := l.c.send(l.req, b.Sent, l.until); err != nil {
			return err
		}
		if _, err := l.c.recv(l.reply, len(l.reply), b.Sent, l.until); err != nil {
			return err
		}
		b.ReceivedWall, b.Received = l.clk.now()
		b.KernelReceive = l.c.stamp
		if l.quick {
			l.c.quickAck()
		}
		id, receive, send, err := l.layout.Stamps(l.reply)
		if err != nil {
			return err
		}
		if id != l.id {
			return &badID{id, l.id}
		}
		b.ServerReceive, b.ServerSend = receive.UnixNano(), send.UnixNano()
		now, room = b.Received, 2*(b.Received-b.Sent)
		if l.period > 0 && got%l.burst == 0 && b.Sent-tick > int64(w.ScheduleLateness.V) {
			w.ScheduleLateness.V = time.Duration(b.Sent - tick)
		}
		got++
		if s.keep {
			w.Samples = append(w.Samples, b)
			l.rows.add(l.c, &b)
		}
	}
	if l.period > 0 && got > 0 && got < s.count && tick < s.end {
		// The time was over during a burst: the ticks that passed meanwhile count too.
		w.SkippedTicks += int((s.end - 1 - tick) / l.period)
	}
	return nil
}
