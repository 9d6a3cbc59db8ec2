package report

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// keysOf collects every key that a type can write.
func keysOf(t reflect.Type, into map[string]reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			into[name] = f.Type
		}
		keysOf(f.Type, into)
	}
}

func allKeys() map[string]reflect.Type {
	keys := map[string]reflect.Type{}
	keysOf(reflect.TypeFor[document](), keys)
	keysOf(reflect.TypeFor[rawHeader](), keys)
	keysOf(reflect.TypeFor[rawSample](), keys)
	return keys
}

func TestEveryKeyIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../docs/REPORT.md")
	if err != nil {
		t.Fatal(err)
	}
	for key := range allKeys() {
		if !bytes.Contains(doc, []byte("`"+key+"`")) && !bytes.Contains(doc, []byte(`"`+key+`"`)) {
			t.Errorf("docs/REPORT.md does not say what %q is", key)
		}
	}
}

// TestKeysCarryTheirUnit: a fraction is always a quantity with a unit.
func TestKeysCarryTheirUnit(t *testing.T) {
	for key, typ := range allKeys() {
		for typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		time := typ == reflect.TypeFor[decimal]()
		if strings.HasSuffix(key, "_seconds") != time {
			t.Errorf("%q is a time by its name or by its type, and not by both", key)
		}
		if typ.Kind() == reflect.Float64 && key != "bounces_per_second" {
			t.Errorf("%q has no unit", key)
		}
	}
}

// TestJSONAgainstTheSamples computes some figures anew from the raw stamps.
func TestJSONAgainstTheSamples(t *testing.T) {
	r := tripTimes()
	var b, raw bytes.Buffer
	if err := JSON(&b, r, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := Raw(&raw, r, Options{}); err != nil {
		t.Fatal(err)
	}
	var doc document
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	var rtt, asym, n float64
	dec := json.NewDecoder(&raw)
	for dec.More() {
		var line rawSample
		if err := dec.Decode(&line); err != nil {
			t.Fatal(err)
		}
		if line.Kind == "bounce" {
			n++
			rtt += float64(line.Received-line.Sent) / 1e9
			asym += float64((line.ReceivedWall-line.ServerSend)-(line.ServerReceive-line.SentWall)) / 1e9
		}
	}
	w := doc.Windows[0]
	if n != 100 || w.Replies != 100 || w.RTT.Count != 100 {
		t.Fatalf("%v raw, %d replies, %d in the distribution", n, w.Replies, w.RTT.Count)
	}
	if mean := time.Duration(w.RTT.MeanSeconds).Seconds(); math.Abs(mean-rtt/n) > 1e-9 {
		t.Errorf("mean RTT %v, by the stamps %v", mean, rtt/n)
	}
	if mean := time.Duration(w.Asymmetry.MeanSeconds).Seconds(); math.Abs(mean-asym/n) > 1e-9 || mean <= 0 {
		t.Errorf("mean asymmetry %v, by the stamps %v; the way back is longer", mean, asym/n)
	}
	if math.Abs(*w.BouncesPerSecond-n/rtt) > 1e-6 {
		t.Errorf("%v bounces per second, by the stamps %v", *w.BouncesPerSecond, n/rtt)
	}
	bins := 0
	for _, bin := range w.Histogram.Bins {
		bins += bin.Count
	}
	if bins != 100 {
		t.Errorf("%d values in 100 us bins", bins)
	}
	rows := 0
	for _, row := range w.Rows {
		rows += row.Replies
	}
	if rows != 100 {
		t.Errorf("%d values in rows", rows)
	}
}

// TestAbsent: what was not measured has no key.
func TestAbsent(t *testing.T) {
	for name, absent := range map[string][]string{
		"refused":      {"connect", "first_bounce", "peer", "clock", "load", "local_address", "tcp_min_rtt_seconds"},
		"nokernel":     {"receive_lateness", "tcp_retransmits", "tcp", "owd_to_server", "skipped_ticks"},
		"clockfailure": {"owd_to_server", "owd_from_server", "asymmetry", "absolute_asymmetry_mean_seconds"},
		"onebounce":    {"stddev_seconds", "p50_seconds", "version", "hold_honored"},
		"triptimes":    {"p99_9_seconds", "failure", "load_to_server_bytes", "log"},
	} {
		r := fixtures()[name]
		if name == "triptimes" {
			r.Log = nil
		}
		var b bytes.Buffer
		if err := JSON(&b, r, Options{}); err != nil {
			t.Fatal(err)
		}
		for _, key := range absent {
			if strings.Contains(b.String(), `"`+key+`":`) {
				t.Errorf("%s has %q, which was not measured", name, key)
			}
		}
	}
}

// TestRowWithoutReplies: a second in which nothing came back is there, with no round
// trip, and takes nothing from those beside it.
func TestRowWithoutReplies(t *testing.T) {
	r := loaded()
	w := &r.Windows[1]
	stalled := w.Rows[0]
	stalled.Replies, stalled.RTTSum, stalled.RTTMax, stalled.LoadUp, stalled.LoadDown = 0, 0, 0, 0, 0
	next := w.Rows[1]
	w.Rows = []prober.Row{stalled, next}

	var b bytes.Buffer
	if err := JSON(&b, r, Options{}); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Windows []struct{ Rows []map[string]any }
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	rows := got.Windows[1].Rows
	if len(rows) != 2 || rows[0]["replies"] != 0.0 || rows[0]["load_to_server_bytes"] != 0.0 {
		t.Fatalf("rows %v", rows)
	}
	for _, key := range []string{"rtt_mean_seconds", "rtt_max_seconds"} {
		if v, ok := rows[0][key]; ok {
			t.Errorf("%s %v of no reply", key, v)
		}
		if v, ok := rows[1][key].(float64); !ok || v <= 0 {
			t.Errorf("%s %v of %d replies", key, v, next.Replies)
		}
	}
	line := strings.Fields(rowLine(&stalled, time.Second, true, w.Load))
	if len(line) < 4 || line[1] != "0" || line[2] != "-" || line[3] != "-" {
		t.Errorf("row %q", line)
	}
}

func TestRawOrder(t *testing.T) {
	r := loaded()
	var b bytes.Buffer
	if err := Raw(&b, r, Options{}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if want := 2 + len(r.Windows[0].Samples) + len(r.Windows[1].Samples); len(lines) != want {
		t.Fatalf("%d lines, want %d", len(lines), want)
	}
	for i, want := range map[int]string{0: `"kind":"probe"`, 1: `"kind":"first"`,
		2: `"kind":"bounce","window":0,"load":"none"`, len(lines) - 1: `"window":1,"load":"both"`} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d lacks %s: %s", i, want, lines[i])
		}
	}
	for i, line := range lines[2:] {
		var s rawSample
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("line %d: %v", i, err)
		}
	}
}

// TestRawIsExact: no stamp loses a digit on the way.
func TestRawIsExact(t *testing.T) {
	r := closedEarly()
	r.Windows[0].Samples = []prober.Sample{{Sent: 1, Received: 1<<53 + 1, SentWall: 1<<62 + 1,
		ReceivedWall: 1<<62 + 3, ServerReceive: -5, ServerSend: time.Now().UnixNano(), KernelReceive: 1<<62 + 2}}
	var b bytes.Buffer
	if err := Raw(&b, r, Options{}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	var s rawSample
	if err := json.Unmarshal([]byte(lines[2]), &s); err != nil {
		t.Fatal(err)
	}
	want := r.Windows[0].Samples[0]
	got := prober.Sample{Sent: s.Sent, Received: s.Received, SentWall: s.SentWall, ReceivedWall: s.ReceivedWall,
		ServerReceive: s.ServerReceive, ServerSend: s.ServerSend, KernelReceive: *s.KernelReceive}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
