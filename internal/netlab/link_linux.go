package netlab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/internal/netlab/linkd"
	"golang.org/x/sys/unix"
)

// linkProcess is our end of the link.
type linkProcess struct {
	cmd      *exec.Cmd
	realtime bool

	mu      sync.Mutex // one order at a time
	control *os.File
	orders  *json.Encoder
	replies *json.Decoder
	stderr  bytes.Buffer // to be read after cmd.Wait only
}

const (
	orderTimeout = 10 * time.Second
	stopTimeout  = 15 * time.Second
	killTimeout  = 2 * time.Second
)

// startLink starts the link process and hands it the devices.
func startLink(owner string, hosts []*Host, tuns []*os.File, c Config) (*linkProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "control")
	defer theirs.Close()
	if err := unix.SetNonblock(pair[0], true); err != nil { // so that it has deadlines
		unix.Close(pair[0])
		return nil, err
	}
	p := &linkProcess{control: os.NewFile(uintptr(pair[0]), "control")}
	p.orders, p.replies = json.NewEncoder(p.control), json.NewDecoder(p.control)

	setup := linkd.Setup{Owner: os.Getpid(), Links: [2]Link{linkd.AtoB: c.AtoB, linkd.BtoA: c.BtoA}}
	files := []*os.File{theirs}
	for i, h := range hosts {
		fd := 3 + len(files)
		s := linkd.HostSetup{TUN: fd, Namespace: fd + 1}
		s.Addresses = append(s.Addresses, h.Addr4.String())
		if h.Addr6.IsValid() {
			s.Addresses = append(s.Addresses, h.Addr6.String())
		}
		setup.Hosts = append(setup.Hosts, s)
		files = append(files, tuns[i], h.ns)
	}
	p.cmd = exec.Command(self)
	p.cmd.Args = []string{"netlab-link", fmt.Sprint("of=", os.Getpid())}
	// The runtime would send signals to threads that don't yield for 10 ms.
	p.cmd.Env = append(os.Environ(), linkd.EnvLink+"=1", linkd.EnvOwner+"="+owner, "GODEBUG=asyncpreemptoff=1")
	p.cmd.ExtraFiles = files
	p.cmd.Stderr = &p.stderr
	// Ctrl-C is for the test; the link stays to clean up after it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		p.control.Close()
		return nil, fmt.Errorf("starting the link: %w", err)
	}
	r, err := p.call(linkd.Request{Setup: &setup})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("setting up the link: %w", err), p.stop())
	}
	p.realtime = r.Realtime
	return p, nil
}

// call sends one order and waits for its reply.
func (p *linkProcess) call(q linkd.Request) (r linkd.Reply, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.control.SetDeadline(time.Now().Add(orderTimeout)); err != nil {
		return r, fmt.Errorf("the link is closed: %w", err)
	}
	if err := p.orders.Encode(q); err != nil {
		return r, fmt.Errorf("the link does not listen: %w", err)
	}
	if err := p.replies.Decode(&r); err != nil {
		return r, fmt.Errorf("the link does not answer: %w", err)
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	return r, nil
}

// stop lets the link end all processes in the lab, and then itself.
func (p *linkProcess) stop() error {
	p.control.Close()
	// A link that hangs is asked where (the runtime answers on stderr), then ended.
	ask := time.AfterFunc(stopTimeout, func() { _ = p.cmd.Process.Signal(syscall.SIGQUIT) })
	defer ask.Stop()
	end := time.AfterFunc(stopTimeout+killTimeout, func() { _ = p.cmd.Process.Kill() })
	defer end.Stop()
	err := p.cmd.Wait()
	if text := strings.TrimSpace(p.stderr.String()); err != nil || text != "" {
		return fmt.Errorf("link process: %v %s", err, text)
	}
	return nil
}
