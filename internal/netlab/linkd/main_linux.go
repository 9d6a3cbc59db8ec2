package linkd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/internal/netlab/shape"
	"golang.org/x/sys/unix"
)

// RunIfAsked turns the process into a link if EnvLink is set, and then never
// returns.
func RunIfAsked() {
	if os.Getenv(EnvLink) == "" {
		return
	}
	if err := serve(os.NewFile(controlFD, "control")); err != nil {
		fmt.Fprintln(os.Stderr, "netlab link:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// link is the whole process.
type link struct {
	setup Setup
	dirs  [2]*direction
}

// serve answers orders until the other end of control is gone, then ends what
// still runs in the lab's namespaces.
func serve(control *os.File) error {
	// Collections would stop the threads. Nothing is allocated once the buffers have
	// grown; the limit is for runs that never end.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(1 << 30)
	// One for each direction, so that a thread that comes back from the kernel never
	// queues for the right to run Go code.
	runtime.GOMAXPROCS(4)

	var l link
	orders, replies := json.NewDecoder(control), json.NewEncoder(control)
	for {
		var q Request
		err := orders.Decode(&q)
		if err == nil {
			reply := l.do(q)
			err = replies.Encode(reply)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
			return l.setup.cleanUp()
		}
		if err != nil {
			return errors.Join(fmt.Errorf("control: %w", err), l.setup.cleanUp())
		}
	}
}

func (l *link) do(q Request) Reply {
	if q.Setup != nil {
		realtime, err := l.start(*q.Setup)
		if err != nil {
			return Reply{Error: err.Error()}
		}
		return Reply{Realtime: realtime}
	}
	if q.Usage {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			return Reply{Error: err.Error()}
		}
		return Reply{CPU: time.Duration(u.Utime.Nano() + u.Stime.Nano())}
	}
	if q.Direction < 0 || int(q.Direction) >= len(l.dirs) || l.dirs[q.Direction] == nil {
		return Reply{Error: fmt.Sprintf("no direction %d", q.Direction)}
	}
	return l.dirs[q.Direction].do(q)
}

// start makes both directions move.
func (l *link) start(s Setup) (realtime bool, err error) {
	if l.dirs[AtoB] != nil {
		return false, errors.New("link is already set up")
	}
	if len(s.Hosts) < 2 {
		return false, fmt.Errorf("%d hosts, need 2 or more", len(s.Hosts))
	}
	l.setup = s
	ports := make([]int, len(s.Hosts))
	routes := map[netip.Addr]int{}
	for i, h := range s.Hosts {
		if err := unix.SetNonblock(h.TUN, true); err != nil {
			return false, fmt.Errorf("TUN device of host %d: %w", i, err)
		}
		ports[i] = h.TUN
		for _, text := range h.Addresses {
			a, err := netip.ParseAddr(text)
			if err != nil {
				return false, err
			}
			routes[a] = i
		}
	}
	for d := range l.dirs {
		shaper, err := shape.New(s.Links[d])
		if err != nil {
			return false, fmt.Errorf("%v: %w", Direction(d), err)
		}
		wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		if err != nil {
			return false, fmt.Errorf("eventfd: %w", err)
		}
		dir := &direction{shaper: shaper, ports: ports, wake: wake, epoch: time.Now()}
		if Direction(d) == AtoB {
			dir.from, dir.route = ports[1:], map[netip.Addr]int{}
			for a, i := range routes {
				if i == 0 {
					dir.route[a] = i
				}
			}
		} else {
			dir.from, dir.route = ports[:1], routes
		}
		l.dirs[d] = dir
	}
	realtime = SetRealtime(os.Getpid(), true) == nil
	for _, d := range l.dirs {
		go d.run()
	}
	return realtime, nil
}

func (s Setup) cleanUp() error {
	var fds []int
	for _, h := range s.Hosts {
		fds = append(fds, h.Namespace)
	}
	return KillIn(s.Owner, fds...)
}
