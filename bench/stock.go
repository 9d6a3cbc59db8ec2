//go:build linux

package main

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// stockLine is the client's last interval line of 2.1.8 and 2.1.9:
// BB cnt=avg/min/max/stdev in ms, then retries, cwnd/RTT and the bounces per
// second, which iperf counts as count / sum of RTTs.
const stockLine = `(\d+)=([\d.]+)/([\d.]+)/([\d.]+)/([\d.]+) ms\s+\d+\s+\S+ us\s+([\d.]+) rps`

// parseStock reads the report of a stock client. iperf bins RTTs by 100 us, so
// there is no median and no 99th percentile to compare below that.
func parseStock(out []byte, process time.Duration) (measured, error) {
	all := regexp.MustCompile(stockLine).FindAllSubmatch(out, -1)
	if len(all) == 0 {
		return nil, fmt.Errorf("no bounceback line in what iperf printed:\n%s", out)
	}
	last := all[len(all)-1]
	n, err := strconv.Atoi(string(last[1]))
	if err != nil || n == 0 {
		return nil, fmt.Errorf("%q is no count of bounces", last[1])
	}
	rps, err := strconv.ParseFloat(string(last[6]), 64)
	if err != nil || rps == 0 {
		return nil, fmt.Errorf("%q is no rate", last[6])
	}
	return measured{figMean: 1e6 / rps, figRate: rps, figAllCPU: us(process) / float64(n)}, nil
}

// parseStockLoad reads the report of a stock client's TCP test: a line per
// direction, that from the server with a star.
func parseStockLoad(out []byte, process time.Duration) (measured, error) {
	var bytes [2]uint64 // to the server, from it
	var wall float64
	for _, l := range regexp.MustCompile(`\[ ?([ *])\d+\] 0\.0+-([\d.]+) sec +(\d+) Bytes`).FindAllSubmatch(out, -1) {
		direction := 0
		if string(l[1]) == "*" {
			direction = 1
		}
		n, err := strconv.ParseUint(string(l[3]), 10, 64)
		if err != nil {
			return nil, err
		}
		bytes[direction] += n
		sec, err := strconv.ParseFloat(string(l[2]), 64)
		if err != nil {
			return nil, err
		}
		wall = max(wall, sec)
	}
	if bytes[0]+bytes[1] == 0 || wall == 0 {
		return nil, fmt.Errorf("no transfer in what iperf printed:\n%s", out)
	}
	m := make(measured)
	m.load(bytes[0], bytes[1], time.Duration(wall*float64(time.Second)), process)
	return m, nil
}
