package linkd

import (
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"
	"unsafe"

	"github.com/bounceback-exporter/bounceback_exporter/internal/netlab/shape"
	"golang.org/x/sys/unix"
)

const (
	// wakeAhead is how long before a delivery the thread gets up: the CPU of a virtual
	// machine needs about that long from its timer to running it. The rest is spent
	// looking at the clock and at the devices.
	wakeAhead = 60 * time.Microsecond
	// spinShare bounds that to one part in so many of all time, and spinBurst how much
	// of it may be saved up: at thousands of packets per second the thread sleeps
	// until each is due and the packets are as late as the wake-up is slow.
	spinShare = 5
	spinBurst = 2 * time.Millisecond
	// batch is how many packets are read from a device before deliveries are looked at.
	batch = 16
)

// direction moves packets from its from devices to those of route.
type direction struct {
	ports []int              // descriptor of each host's device
	from  []int              // descriptors to read
	route map[netip.Addr]int // address -> index in ports
	wake  int                // eventfd: the settings changed
	epoch time.Time

	mu     sync.Mutex
	shaper *shape.Shaper

	budget  time.Duration // left for spinning
	counted time.Duration // up to when budget was reckoned
	limit   unix.Timespec // of the sleep; here, so that it is not allocated anew
}

func (d *direction) now() time.Duration { return time.Since(d.epoch) }

// do carries out one order and makes the thread look again.
func (d *direction) do(q Request) Reply {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	var r Reply
	var err error
	switch {
	case q.Set != nil:
		err = d.shaper.Set(now, *q.Set)
	case q.Drop != nil:
		d.shaper.Drop(*q.Drop)
	case q.DropNone:
		d.shaper.DropNothing()
	case q.Pause != nil:
		err = d.shaper.Pause(now, q.Pause.For, q.Pause.Mode)
	case q.Stats:
		s := d.shaper.Stats(now)
		r.Stats = &s
	case q.ResetStats:
		d.shaper.ResetStats()
	default:
		err = fmt.Errorf("empty request")
	}
	if err != nil {
		r.Error = err.Error()
	}
	one := [8]byte{1}
	if _, err := unix.Write(d.wake, one[:]); err != nil && err != unix.EAGAIN {
		r.Error = fmt.Sprintf("eventfd: %v", err)
	}
	return r
}

// run is the thread of one direction. It never returns. Its goroutine stays on that
// thread because it never blocks where the Go scheduler sees it. It is not locked to
// it on purpose: now and then the scheduler makes it yield, and a locked goroutine
// that yields is resumed by way of another thread, which takes two wake-ups.
func (d *direction) run() {
	// Without real-time priority the kernel would let each sleep run 50 us over.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	fds := make([]unix.PollFd, 0, len(d.from)+1)
	for _, fd := range append([]int{d.wake}, d.from...) {
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	for {
		at, ok := d.step()
		if !ok {
			d.sleep(fds, -1)
			continue
		}
		left := at - d.now()
		if left <= 0 {
			continue
		}
		if d.maySpin() {
			if left <= wakeAhead {
				continue
			}
			left -= wakeAhead
		}
		d.sleep(fds, left)
	}
}

// step delivers what is due, takes in some of what has come, and returns the next
// instant at which something is due. What it leaves in a device wakes the next sleep
// at once; in between orders have their turn.
func (d *direction) step() (next time.Duration, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deliver()
	for _, fd := range d.from {
		for range batch {
			p := d.shaper.Get()
			n, err := read(fd, p.Buf)
			if err != 0 {
				d.shaper.Put(p)
				if err != unix.EAGAIN && err != unix.EINTR {
					fail("reading a TUN device", err)
				}
				break
			}
			d.take(p, n)
		}
	}
	d.deliver()
	return d.shaper.Next()
}

// take puts a packet on the link. Multicast is not carried: it is the kernel's own
// chatter (MLD, router solicitations) and would make the counters differ from run
// to run.
func (d *direction) take(p *shape.Packet, n int) {
	p.Data = p.Buf[:n]
	dst, ok := shape.Destination(p.Data)
	if !ok || dst.IsMulticast() {
		d.shaper.Put(p)
		return
	}
	p.Port = -1
	if i, known := d.route[dst]; known {
		p.Port = i
	}
	d.shaper.Arrive(d.now(), p)
}

// deliver writes all packets that are due.
func (d *direction) deliver() {
	for {
		p := d.shaper.Take(d.now())
		if p == nil {
			return
		}
		delivered := false
		if p.Port >= 0 {
			delivered = write(d.ports[p.Port], p.Data) == 0
		}
		d.shaper.Delivered(p, delivered)
		d.shaper.Put(p)
	}
}

// sleep returns when a packet or an order has come, after left (negative: not
// before), or now and then without a reason: whoever calls looks at the clock again.
//
// It blocks without telling the Go scheduler (RawSyscall). Told, the runtime's monitor
// would take the processor away from each sleep and, to be able to, get up every 20
// us itself: three times the CPU. The price is that nothing that stops the world can
// finish before the sleep ends; with the collector off nothing does, and longest
// bounds it.
func (d *direction) sleep(fds []unix.PollFd, left time.Duration) {
	const longest = 100 * time.Millisecond
	if left < 0 || left > longest {
		left = longest
	}
	d.limit = unix.NsecToTimespec(int64(left))
	before := d.now()
	_, _, err := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds[0])), uintptr(len(fds)),
		uintptr(unsafe.Pointer(&d.limit)), 0, 0, 0)
	if err != 0 && err != unix.EINTR {
		fail("ppoll", err)
	}
	// Time asleep is time not spun.
	after := d.now()
	d.budget = min(spinBurst, d.budget+(after-before)/spinShare)
	d.counted = after
	if fds[0].Revents != 0 {
		var b [8]byte
		_, _ = read(d.wake, b[:]) // EAGAIN: an order in between has been seen already
	}
}

// maySpin charges the time awake since it was last asked, and tells whether there
// is budget for more.
func (d *direction) maySpin() bool {
	now := d.now()
	d.budget = max(0, d.budget-(now-d.counted))
	d.counted = now
	return d.budget > 0
}

// read and write are calls that can't block (O_NONBLOCK), without telling the
// scheduler that they might.
func read(fd int, b []byte) (int, unix.Errno) {
	n, _, err := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	return int(n), err
}

func write(fd int, b []byte) unix.Errno {
	_, _, err := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	return err
}

// fail ends the process: a link that has lost a device is no link, and the lab
// shows what it wrote.
func fail(what string, err unix.Errno) {
	fmt.Fprintf(os.Stderr, "netlab link: %s: %v\n", what, err)
	os.Exit(1)
}
