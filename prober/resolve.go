package prober

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
)

// Resolver looks up the addresses of a name, as net.Resolver does.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Resolve turns job.Target into the one literal address job.Addr: the preferred
// family of the module, the other where fallback is allowed. That address is the
// one that is checked, dialled, limited and remembered. On failure it returns the
// finished Result, else nil.
func (p *Prober) Resolve(ctx context.Context, job *Job) *Result {
	if job.Start.IsZero() {
		job.Start = time.Now()
	}
	begin := time.Now()
	ip, err := resolve(ctx, p.opts.Resolver, job.Target.Host, job.Module)
	job.ResolveTook = Some(time.Since(begin))
	if err != nil {
		reason := ReasonResolve
		if errors.Is(context.Cause(ctx), context.Canceled) {
			reason = ReasonCancelled
		}
		return failed(ctx, job, PhaseResolve, reason, err)
	}
	job.Addr = netip.AddrPortFrom(ip, job.Target.Port)
	return checkAllowed(ctx, job)
}

// checkAllowed returns the finished Result of a probe that may not be done.
func checkAllowed(ctx context.Context, job *Job) *Result {
	if job.Allowed == nil {
		return nil
	}
	if err := job.Allowed.Check(job.Addr); err != nil {
		return failed(ctx, job, PhaseResolve, ReasonTargetDenied, err)
	}
	return nil
}

func failed(ctx context.Context, job *Job, ph Phase, reason Reason, cause error) *Result {
	r := newResult(ctx, job)
	r.Err = &Error{ph, reason, cause}
	r.Elapsed = time.Since(job.Start)
	r.Log = append(r.Log, LogLine{r.Elapsed, r.Err.Error()})
	return r
}

func resolve(ctx context.Context, res Resolver, host string, m *config.Module) (netip.Addr, error) {
	wants4 := m.PreferredIPProtocol == "ip4"
	var addrs []netip.Addr
	if a, err := netip.ParseAddr(host); err == nil {
		addrs = []netip.Addr{a}
	} else {
		network := "ip"
		if !m.IPProtocolFallback {
			network = m.PreferredIPProtocol
		}
		if addrs, err = res.LookupNetIP(ctx, network, host); err != nil {
			return netip.Addr{}, err
		}
	}
	var other netip.Addr
	for _, a := range addrs {
		// The zone of a v4-mapped address was refused by ParseTarget.
		if a = a.Unmap(); a.Is4() == wants4 {
			return dialable(a)
		}
		if !other.IsValid() {
			other = a
		}
	}
	if other.IsValid() && m.IPProtocolFallback {
		return dialable(other)
	}
	return netip.Addr{}, &net.DNSError{
		Err:        fmt.Sprintf("no %s address and ip_protocol_fallback is false", m.PreferredIPProtocol),
		Name:       host,
		IsNotFound: true,
	}
}

// dialable refuses addresses that are no host's: the kernel turns the unspecified
// address into loopback, behind the back of an allow-list. It also gives each
// server one address: what is promised for an address (who may probe it, its
// handshake slot, its loads) is kept under that, so a zone must not make two of one.
func dialable(a netip.Addr) (netip.Addr, error) {
	if a.IsUnspecified() || a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return netip.Addr{}, fmt.Errorf("%s is not the address of a host", a)
	}
	if a.Zone() == "" {
		return a, nil
	}
	if !a.IsLinkLocalUnicast() {
		return a.WithZone(""), nil // the kernel pays no heed to it either
	}
	name, err := zoneName(a.Zone())
	if err != nil {
		return netip.Addr{}, fmt.Errorf("zone of %s: %w", a, err)
	}
	return a.WithZone(name), nil
}

// zoneName is the name of the interface that a zone gives by name or by number.
func zoneName(zone string) (string, error) {
	if i, err := net.InterfaceByName(zone); err == nil {
		return i.Name, nil
	}
	n, err := strconv.Atoi(zone)
	if err != nil {
		return "", fmt.Errorf("no network interface is called %q", zone)
	}
	i, err := net.InterfaceByIndex(n)
	if err != nil {
		return "", fmt.Errorf("no network interface has the number %d", n)
	}
	return i.Name, nil
}
