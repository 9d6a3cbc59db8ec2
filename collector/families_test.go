package collector

import (
	"errors"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/bounceback-exporter/bounceback_exporter/prober"
	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// flat lists every series of the families as name{labels}, with its number; a
// histogram's is its count.
func flat(families []*dto.MetricFamily) map[string]float64 {
	out := map[string]float64{}
	for _, mf := range families {
		for _, m := range mf.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			key := mf.GetName()
			if len(labels) > 0 {
				key += "{" + strings.Join(labels, ",") + "}"
			}
			out[key] = m.GetGauge().GetValue()
			if h := m.GetHistogram(); h != nil {
				out[key] = float64(h.GetSampleCount())
			}
		}
	}
	return out
}

func probeFlat(r *prober.Result, x Extra) map[string]float64 { return flat(Families(r, x)) }

func TestVocabulary(t *testing.T) {
	v := vocabulary()
	for i, d := range v {
		if i > 0 && v[i-1].name >= d.name {
			t.Errorf("%s comes before %s", v[i-1].name, d.name)
		}
		if d.unit != noUnit && !strings.HasSuffix(d.name, "_"+d.unit) {
			t.Errorf("%s does not end in its unit %s", d.name, d.unit)
		}
		if d.unit == noUnit && (strings.HasSuffix(d.name, "_"+seconds) || strings.HasSuffix(d.name, "_"+bytes)) {
			t.Errorf("%s has no unit", d.name)
		}
		for _, bad := range []string{"_total", "_count", "_sum", "_bucket", "_created", "gauge", "histogram"} {
			if strings.HasSuffix(d.name, bad) {
				t.Errorf("%s must not end in %s", d.name, bad)
			}
		}
		if !strings.HasSuffix(d.help, ".") {
			t.Errorf("the help of %s is no sentence", d.name)
		}
	}
}

// TestVocabularyIsUsed: a name that no fixture brings forth is a dead one.
func TestVocabularyIsUsed(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range fixtures() {
		for _, mf := range Families(f.result, f.extra) {
			seen[mf.GetName()] = true
		}
	}
	for _, d := range vocabulary() {
		if !seen[d.name] {
			t.Errorf("nothing exposes %s", d.name)
		}
	}
}

func TestFamiliesAreOrderedGauges(t *testing.T) {
	for name, f := range fixtures() {
		last := ""
		for _, mf := range Families(f.result, f.extra) {
			if mf.GetName() <= last {
				t.Errorf("%s: %s comes after %s", name, mf.GetName(), last)
			}
			last = mf.GetName()
			for _, m := range mf.Metric {
				h := m.GetHistogram()
				if (mf.GetType() == dto.MetricType_GAUGE_HISTOGRAM) != (h != nil) || (h == nil) != (m.Gauge != nil) {
					t.Errorf("%s: %s is a %v", name, mf.GetName(), mf.GetType())
				}
				if h != nil && (h.CreatedTimestamp != nil || h.SampleCountFloat != nil || mf.GetUnit() != seconds) {
					t.Errorf("%s: %s is no plain gauge histogram", name, mf.GetName())
				}
			}
		}
	}
}

func TestOutcome(t *testing.T) {
	r := failedResult()
	for _, failed := range append(prober.Reasons(), "") {
		r.Err = nil
		if failed != "" {
			r.Err = &prober.Error{Reason: failed}
		}
		got := probeFlat(r, Extra{})
		if got["probe_success"] != map[bool]float64{true: 1}[failed == ""] {
			t.Errorf("%q: probe_success %v", failed, got["probe_success"])
		}
		for _, reason := range prober.Reasons() {
			v, ok := got["probe_failure_reason{reason="+string(reason)+"}"]
			if !ok || v != map[bool]float64{true: 1}[failed == reason] {
				t.Errorf("%q: reason %s is %v, present %v", failed, reason, v, ok)
			}
		}
	}
}

func TestExtraIsTheRequests(t *testing.T) {
	r := richResult(10)
	own := probeFlat(r, Extra{})
	if own["probe_duration_seconds"] != 2.1 || own["probe_timeout_seconds"] != 9.5 || own["probe_bounceback_result_age_seconds"] != 0 {
		t.Errorf("of the result: %v, %v, %v", own["probe_duration_seconds"], own["probe_timeout_seconds"], own["probe_bounceback_result_age_seconds"])
	}
	again := probeFlat(r, Extra{Duration: ms, Timeout: time.Second, ResultAge: time.Minute})
	if again["probe_duration_seconds"] != 0.001 || again["probe_timeout_seconds"] != 1 || again["probe_bounceback_result_age_seconds"] != 60 {
		t.Errorf("of the request: %v, %v, %v", again["probe_duration_seconds"], again["probe_timeout_seconds"], again["probe_bounceback_result_age_seconds"])
	}
	if len(own) != len(again) {
		t.Errorf("%d series, and %d of a repeated result", len(own), len(again))
	}
}

// TestAddress: the hashes are FNV-1a of 4 or 16 bytes, which is what
// blackbox_exporter shows for these addresses.
func TestAddress(t *testing.T) {
	for addr, want := range map[string][2]float64{
		"127.0.0.1:5001":          {4, 3668918509},
		"[::ffff:127.0.0.1]:5001": {4, 3668918509},
		"[::1]:5001":              {6, 1751717746},
		"[fe80::1%eth0]:5001":     {6, 3766760168},
	} {
		r := failedResult()
		if err := r.Addr.UnmarshalText([]byte(addr)); err != nil {
			t.Fatal(err)
		}
		got := probeFlat(r, Extra{})
		if got["probe_ip_protocol"] != want[0] || got["probe_ip_addr_hash"] != want[1] {
			t.Errorf("%s: %v and %.0f, want %v", addr, got["probe_ip_protocol"], got["probe_ip_addr_hash"], want)
		}
	}
}

// TestAbsence goes through what takes series away, and holds that nothing else
// goes with them.
func TestAbsence(t *testing.T) {
	full := probeFlat(richResult(40), Extra{})
	for name, tt := range map[string]struct {
		change func(*prober.Result)
		absent []string // prefixes of series
	}{
		"address not known": {func(r *prober.Result) { r.Addr = netip.AddrPort{} },
			[]string{"probe_ip_"}},
		"phase not reached": {func(r *prober.Result) { r.Phases[prober.PhaseBounce].OK = false },
			[]string{"probe_bounceback_phase_duration_seconds{phase=bounce}"}},
		"not resolved": {func(r *prober.Result) { r.Phases[prober.PhaseResolve].OK = false },
			[]string{"probe_bounceback_phase_duration_seconds{phase=resolve}", "probe_dns_lookup_time_seconds"}},
		"no connection": {func(r *prober.Result) { r.Connect = nil },
			[]string{"probe_bounceback_tcp_connect_seconds", "probe_bounceback_tcp_syn_retransmits",
				"probe_bounceback_tcp_initial_", "probe_bounceback_tcp_mss_bytes"}},
		"kernel without that field": {func(r *prober.Result) { r.Connect.TCP.MSS.OK = false },
			[]string{"probe_bounceback_tcp_mss_bytes"}},
		"no first bounce": {func(r *prober.Result) { r.First = nil }, []string{"probe_bounceback_first_rtt_seconds"}},
		"no minimum RTT":  {func(r *prober.Result) { r.TCPMinRTT.OK = false }, []string{"probe_bounceback_tcp_min_rtt_seconds"}},
		"no version":      {func(r *prober.Result) { r.Peer.Version.OK = false }, []string{"probe_bounceback_server_info"}},
		"a version that can't be": {func(r *prober.Result) { r.Peer.Version.V = wire.Version{Upper: 17, Lower: 4711} },
			[]string{"probe_bounceback_server_info"}},
		"no hold": {func(r *prober.Result) { r.Module.Hold = 0 }, []string{"probe_bounceback_hold_honored"}},
		"no schedule": {func(r *prober.Result) { r.Windows[0].ScheduleLateness.OK = false },
			[]string{"probe_bounceback_schedule_lateness_seconds"}},
		"no tcp_info": {func(r *prober.Result) { r.Windows[0].TCP = nil },
			[]string{"probe_bounceback_tcp_rtt", "probe_bounceback_tcp_congestion_window_segments"}},
		"no retransmits": {func(r *prober.Result) { r.Windows[0].TCPRetransmits.OK = false },
			[]string{"probe_bounceback_tcp_retransmits"}},
		"no kernel stamps": {func(r *prober.Result) {
			for i := range r.Windows[0].Samples {
				r.Windows[0].Samples[i].KernelReceive = 0
			}
		}, []string{"probe_bounceback_receive_lateness"}},
		"stamps of another time": {func(r *prober.Result) {
			for i := range r.Windows[0].Samples {
				r.Windows[0].Samples[i].KernelReceive -= int64(time.Hour)
			}
		}, []string{"probe_bounceback_receive_lateness", "probe_bounceback_network_rtt_seconds",
			"probe_bounceback_network_rtt_m"}},
		"no trip_times": {func(r *prober.Result) { r.Module.TripTimes, r.Clock = false, nil },
			[]string{"probe_bounceback_owd_", "probe_bounceback_asymmetry_", "probe_bounceback_clock_"}},
		"clock check failed": {func(r *prober.Result) { r.Clock.Failures = 1 },
			[]string{"probe_bounceback_owd_", "probe_bounceback_asymmetry_"}},
		"clock stepped": {func(r *prober.Result) { r.Clock.Step.V = -time.Second },
			[]string{"probe_bounceback_owd_", "probe_bounceback_asymmetry_"}},
		"adjtimex blocked": {func(r *prober.Result) {
			r.Clock.Synchronized.OK, r.Clock.MaxError.OK, r.Clock.EstimatedError.OK = false, false, false
		}, []string{"probe_bounceback_clock_synchronized", "probe_bounceback_clock_max_", "probe_bounceback_clock_estimated_"}},
		"no reply": {func(r *prober.Result) { r.Windows[0].Samples = nil },
			[]string{"probe_bounceback_rtt_", "probe_bounceback_network_", "probe_bounceback_owd_", "probe_bounceback_asymmetry_",
				"probe_bounceback_server_dwell_", "probe_bounceback_receive_", "probe_bounceback_hold_honored"}},
		"no window": {func(r *prober.Result) { r.Windows = nil },
			[]string{"probe_bounceback_rtt_", "probe_bounceback_network_", "probe_bounceback_owd_", "probe_bounceback_asymmetry_",
				"probe_bounceback_server_dwell_", "probe_bounceback_receive_", "probe_bounceback_hold_honored",
				"probe_bounceback_requests", "probe_bounceback_replies", "probe_bounceback_skipped_", "probe_bounceback_schedule_",
				"probe_bounceback_tcp_rtt", "probe_bounceback_tcp_congestion_", "probe_bounceback_tcp_retransmits"}},
		"no timeout": {func(r *prober.Result) { r.Timeout = 0 }, []string{"probe_timeout_seconds"}},
		"no module": {func(r *prober.Result) { *r = prober.Result{Err: &prober.Error{Reason: prober.ReasonResolve}} },
			[]string{"probe_bounceback_", "probe_ip_", "probe_dns_", "probe_timeout_"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := richResult(40)
			tt.change(r)
			got := probeFlat(r, Extra{})
			gone := func(series string) bool {
				return slices.ContainsFunc(tt.absent, func(prefix string) bool { return strings.HasPrefix(series, prefix) })
			}
			for series := range full {
				if _, ok := got[series]; ok == gone(series) && series != "probe_bounceback_result_age_seconds" {
					t.Errorf("%s: present %v", series, ok)
				}
			}
			for series := range got {
				if _, ok := full[series]; !ok {
					t.Errorf("%s is new", series)
				}
			}
		})
	}
}

func TestLoadAbsence(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*prober.Load)
		want   []string
	}{
		"all": {func(*prober.Load) {}, []string{"bytes{direction=from_server}", "bytes{direction=to_server}",
			"duration_seconds", "streams", "tcp_retransmits", "tcp_rtt_seconds{stat=max}", "tcp_rtt_seconds{stat=mean}"}},
		"down only": {func(l *prober.Load) {
			l.BytesToServer.OK, l.TCPRTTMean.OK, l.TCPRTTMax.OK, l.TCPRetransmits.OK = false, false, false, false
		}, []string{"bytes{direction=from_server}", "duration_seconds", "streams"}},
		"broke before its window": {func(l *prober.Load) { *l = prober.Load{Streams: 2, Started: true} }, []string{"streams"}},
		"never began":             {func(l *prober.Load) { *l = prober.Load{Streams: 2} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := loadResult(10)
			tt.change(r.Load)
			var got []string
			for series := range probeFlat(r, Extra{}) {
				if s, ok := strings.CutPrefix(series, "probe_bounceback_load_"); ok {
					got = append(got, s)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, tt.want) {
				t.Errorf("got  %v\nwant %v", got, tt.want)
			}
		})
	}
}

// TestCounts: in each window the round trips are the replies, and the network
// round trips with those discarded are too.
func TestCounts(t *testing.T) {
	r := loadResult(40)
	for i := range r.Windows {
		w := &r.Windows[i]
		w.Samples[3].ServerSend -= int64(time.Second) // dwell below zero
		w.Samples[4].ServerSend += int64(time.Second) // longer than the round trip
	}
	got := probeFlat(r, Extra{})
	for i := range r.Windows {
		l := "{load=" + string(r.Windows[i].Load) + "}"
		n := float64(len(r.Windows[i].Samples))
		if got["probe_bounceback_replies"+l] != n || got["probe_bounceback_rtt_seconds"+l] != n ||
			got["probe_bounceback_network_rtt_seconds"+l] != n-2 || got["probe_bounceback_network_rtt_discarded"+l] != 2 {
			t.Errorf("window %s of %v replies: %v, %v, %v and %v", l, n, got["probe_bounceback_replies"+l],
				got["probe_bounceback_rtt_seconds"+l], got["probe_bounceback_network_rtt_seconds"+l],
				got["probe_bounceback_network_rtt_discarded"+l])
		}
		if d := got["probe_bounceback_server_dwell_max_seconds"+l]; d <= 0 || d > 0.01 {
			t.Errorf("window %s: a dwell of %v s is not believable", l, d)
		}
	}
}

func TestWindowValues(t *testing.T) {
	r := richResult(0)
	r.Module.Hold = 500 * us
	r.Windows[0].Samples = []prober.Sample{
		bounce(0, 1*ms, 500*us, 2*ms, 10*us),
		bounce(20*ms, 2*ms, 700*us, 5*ms, 30*us),
		bounce(40*ms, 3*ms, 600*us, 3*ms, 20*us),
	}
	got := probeFlat(r, Extra{})
	for series, want := range map[string]float64{
		"probe_bounceback_rtt_min_seconds{load=none}":                       0.003510,
		"probe_bounceback_rtt_max_seconds{load=none}":                       0.007730,
		"probe_bounceback_network_rtt_min_seconds{load=none}":               0.003,
		"probe_bounceback_network_rtt_max_seconds{load=none}":               0.007,
		"probe_bounceback_owd_min_seconds{direction=to_server,load=none}":   0.001,
		"probe_bounceback_owd_max_seconds{direction=to_server,load=none}":   0.003,
		"probe_bounceback_owd_min_seconds{direction=from_server,load=none}": 0.002010, // the wake-up is in it
		"probe_bounceback_owd_max_seconds{direction=from_server,load=none}": 0.005030,
		"probe_bounceback_server_dwell_seconds{load=none}":                  0.0006,
		"probe_bounceback_server_dwell_max_seconds{load=none}":              0.0007,
		"probe_bounceback_receive_lateness_seconds{load=none}":              0.000030,
		"probe_bounceback_receive_lateness_p99_seconds{load=none}":          0.000030,
		"probe_bounceback_schedule_lateness_seconds{load=none}":             0.000080,
		"probe_bounceback_hold_honored":                                     1,
		"probe_bounceback_first_rtt_seconds":                                0.011930,
		"probe_bounceback_tcp_rttvar_seconds{load=none}":                    0.0013125,
		"probe_bounceback_skipped_ticks{load=none}":                         2,
		"probe_bounceback_period_seconds":                                   0.02,
		"probe_bounceback_server_info{version=2.1.8}":                       1,
	} {
		if v, ok := got[series]; !ok || math.Abs(v-want) > 1e-12 {
			t.Errorf("%s is %v (present %v), want %v", series, v, ok, want)
		}
	}
}

func TestHoldHonored(t *testing.T) {
	for dwell, want := range map[time.Duration]float64{
		20 * us: 0, 498 * us: 0, 499 * us: 1 /* truncated */, 500 * us: 1, 9 * ms: 1,
	} {
		r := richResult(0)
		r.Windows[0].Samples = []prober.Sample{bounce(0, ms, dwell, ms, us), bounce(0, ms, dwell, ms, us), bounce(0, ms, 9*ms, ms, us)}
		got := probeFlat(r, Extra{})
		if v, ok := got["probe_bounceback_hold_honored"]; !ok || v != want {
			t.Errorf("hold 500 us, dwell %v: %v (present %v), want %v", dwell, v, ok, want)
		}
	}
}

// TestNothingIsNaN feeds results that no prober should return.
func TestNothingIsNaN(t *testing.T) {
	for name, change := range map[string]func(*prober.Result){
		"extreme stamps": func(r *prober.Result) {
			s := r.Windows[0].Samples
			s[0] = prober.Sample{Sent: math.MinInt64, Received: math.MaxInt64, ServerSend: math.MaxInt64, ServerReceive: math.MinInt64}
			s[1] = prober.Sample{SentWall: math.MaxInt64, ReceivedWall: math.MinInt64, KernelReceive: math.MinInt64}
			s[2] = prober.Sample{}
		},
		"odd histograms": func(r *prober.Result) {
			r.Module.Histograms.BucketFactor, r.Module.Histograms.AsymmetryBucketFactor = math.NaN(), math.Inf(-1)
			r.Module.Histograms.MaxBuckets = 1
		},
		"failed": func(r *prober.Result) { r.Err = &prober.Error{Cause: errors.New("x")} },
	} {
		r := richResult(40)
		change(r)
		for _, mf := range Families(r, Extra{Duration: -1, ResultAge: math.MaxInt64}) {
			for _, m := range mf.Metric {
				for _, v := range []float64{m.GetGauge().GetValue(), m.GetHistogram().GetSampleSum()} {
					if math.IsNaN(v) || math.IsInf(v, 0) {
						t.Errorf("%s: %s is %v", name, mf.GetName(), v)
					}
				}
			}
		}
	}
}

// TestOneResultForMany: a load's result is given to several requests at once, and
// rendering it changes nothing.
func TestOneResultForMany(t *testing.T) {
	r := loadResult(40)
	want := probeFlat(r, Extra{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got := probeFlat(r, Extra{}); !maps.Equal(got, want) {
				t.Errorf("got %v\nwant %v", got, want)
			}
		})
	}
	wg.Wait()
}
