// Command bench measures the prober beside the stock iperf 2 client and a floor in
// C, on one iperf 2 server: README.md says how and what came out.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options of a run; the same for every way that is compared.
type options struct {
	what      string
	rounds    int
	count     int
	size      int
	hold      time.Duration
	duration  time.Duration
	streams   int
	serverCPU int
	clientCPU int
	nice      int
	pause     time.Duration
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == childArg {
		exit(child(os.Args[2:]))
	}
	var o options
	flag.StringVar(&o.what, "what", "bounce", "what to measure: bounce, load or lateness")
	flag.IntVar(&o.rounds, "rounds", 10, "alternating rounds")
	flag.IntVar(&o.count, "count", 20000, "bounces of a run, 1 to 100000")
	flag.IntVar(&o.size, "size", 100, "bytes of a message, 68 to 131072")
	flag.DurationVar(&o.hold, "hold", 0, "ask the server (up to 2.1.9) to wait before each reply: longer round trips; at most 1s")
	flag.DurationVar(&o.duration, "duration", 2*time.Second, "of a load, whole seconds, 1s to 60s")
	flag.IntVar(&o.streams, "streams", 1, "of a load, 1 to 64")
	flag.IntVar(&o.serverCPU, "server-cpu", 0, "the CPU that the iperf server is pinned to")
	flag.IntVar(&o.clientCPU, "client-cpu", 1, "the CPU that every client is pinned to")
	flag.IntVar(&o.nice, "nice", 0, "niceness of the server and of every client, -20 to 19; below 0, which needs root, it keeps a busy host's other work out of the figures")
	flag.DurationVar(&o.pause, "pause", 150*time.Millisecond, "between two runs; iperf up to 2.1.8 needs 100ms between two connections")
	flag.Parse()
	exit(o.run())
}

// usageError is a mistake of whoever called: exit status 2.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

func (o *options) run() error {
	switch {
	case flag.NArg() > 0:
		return &usageError{fmt.Sprintf("unexpected argument %q: there are only flags", flag.Arg(0))}
	case o.rounds < 1:
		return &usageError{fmt.Sprintf("-rounds %d: at least 1", o.rounds)}
	case o.count < 1 || o.count > 100000:
		return &usageError{fmt.Sprintf("-count %d: 1 to 100000", o.count)}
	case o.size < 68 || o.size > 131072:
		return &usageError{fmt.Sprintf("-size %d: 68 to 131072", o.size)}
	case o.hold < 0 || o.hold > time.Second:
		return &usageError{fmt.Sprintf("-hold %v: 0s to 1s", o.hold)}
	case o.duration < time.Second || o.duration > time.Minute || o.duration%time.Second != 0:
		return &usageError{fmt.Sprintf("-duration %v: whole seconds, 1s to 60s", o.duration)}
	case o.streams < 1 || o.streams > 64:
		return &usageError{fmt.Sprintf("-streams %d: 1 to 64", o.streams)}
	case o.nice < -20 || o.nice > 19:
		return &usageError{fmt.Sprintf("-nice %d: -20 to 19", o.nice)}
	case o.serverCPU == o.clientCPU:
		return &usageError{"-server-cpu and -client-cpu must differ: on one CPU it is the scheduler that is measured"}
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	b := &bench{options: *o, stop: stop}
	defer b.close()
	switch o.what {
	case "bounce":
		return b.bounce(os.Stdout)
	case "load":
		return b.load(os.Stdout)
	case "lateness":
		return b.lateness(os.Stdout)
	}
	return &usageError{fmt.Sprintf("-what %q: bounce, load or lateness", o.what)}
}

func exit(err error) {
	var usage *usageError
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &usage):
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}
