package config

import (
	"fmt"
	"time"
)

// fillDefaults fills what depends on which keys were given.
func (s *section) fillDefaults(m *Module) {
	switch {
	case m.Congest != nil:
		// A load needs an end of its own, whatever the bounces do.
		if !s.has("count") {
			m.Count = MaxCount
		}
	case s.has("duration") && !s.has("count"):
		m.Count = MaxCount
	case s.has("count") && !s.has("duration"):
		m.Duration = 0
	}
	// A source address can only be used in its own family.
	if m.SourceAddress.IsValid() && !s.has("preferred_ip_protocol") {
		m.PreferredIPProtocol = familyOf(m)
	}
}

// familyOf is the ip_protocol of the source address.
func familyOf(m *Module) string {
	if m.SourceAddress.Is4() {
		return "ip4"
	}
	return "ip6"
}

// checkRules reports values that are fine alone and impossible together.
func (s *section) checkRules(m *Module) {
	s.checkEnd(m)
	s.checkSchedule(m)
	if s.sound("hold", "timeout") && m.Hold >= m.Timeout {
		s.broken(fmt.Sprintf("hold must be below the timeout (%s): no reply could come in time", formatDuration(m.Timeout)), "hold", "timeout")
	}
	if s.sound("source_address", "preferred_ip_protocol", "ip_protocol_fallback") &&
		m.SourceAddress.IsValid() && !m.IPProtocolFallback && m.PreferredIPProtocol != familyOf(m) {
		s.broken(fmt.Sprintf("a source address of %s can never reach a target of %s, and ip_protocol_fallback is false",
			familyOf(m), m.PreferredIPProtocol), "source_address")
	}
}

// checkEnd is about what ends the test, and whether it can before the timeout.
func (s *section) checkEnd(m *Module) {
	if !s.sound("duration", "count", "timeout", "congest", "period", "burst", "hold") {
		return
	}
	timeout := formatDuration(m.Timeout)
	switch {
	case m.Duration == 0 && m.Congest != nil:
		s.broken("with congest the duration is always in force: it is how long the load runs", "duration")
	case m.Duration == 0 && !s.has("count"):
		s.broken("0 leaves it to count to end the test, and there is no count", "duration")
	case m.Congest != nil:
		if total := m.Congest.Baseline + m.Congest.Warmup + m.Duration; total > m.Timeout {
			s.broken(fmt.Sprintf("baseline + warmup + duration (%s + %s + %s) is above the timeout (%s)",
				formatDuration(m.Congest.Baseline), formatDuration(m.Congest.Warmup), formatDuration(m.Duration), timeout),
				"duration", "congest", "timeout")
		}
	case m.Duration > m.Timeout:
		s.broken(fmt.Sprintf("duration (%s%s) is above the timeout (%s)",
			formatDuration(m.Duration), s.unlessSet("duration"), timeout), "duration", "timeout")
	case m.Duration == 0:
		bursts := (m.Count + m.Burst - 1) / m.Burst
		if need := times(bursts, m.Period); need > m.Timeout {
			s.broken(fmt.Sprintf("%d bounces, %d every %s, take %s; the timeout is %s",
				m.Count, m.Burst, formatDuration(m.Period), formatDuration(need), timeout), "count", "period", "timeout")
		} else if need := times(m.Count, m.Hold); need > m.Timeout {
			s.broken(fmt.Sprintf("%d bounces with a hold of %s take %s; the timeout is %s",
				m.Count, formatDuration(m.Hold), formatDuration(need), timeout), "count", "hold", "timeout")
		}
	}
}

// checkSchedule is about period and burst.
func (s *section) checkSchedule(m *Module) {
	if s.sound("period", "timeout") && m.Period > m.Timeout {
		s.broken(fmt.Sprintf("period is above the timeout (%s)", formatDuration(m.Timeout)), "period", "timeout")
	}
	if !s.sound("period", "burst", "count", "hold") {
		return
	}
	switch {
	case m.Burst > 1 && m.Period == 0:
		s.broken("a burst is a number of bounces per period, and there is no period: without one every bounce follows at once anyway", "burst")
	case m.Burst > m.Count:
		s.broken(fmt.Sprintf("a burst is longer than the whole test of %d bounces%s", m.Count, s.unlessSet("count")), "burst", "count")
	case m.Period > 0 && times(m.Burst, m.Hold) > m.Period:
		s.broken(fmt.Sprintf("%d bounces with a hold of %s take %s and do not fit into a period of %s",
			m.Burst, formatDuration(m.Hold), formatDuration(times(m.Burst, m.Hold)), formatDuration(m.Period)), "period")
	}
}

// unlessSet tells a reader where a value came from that is not in the file.
func (s *section) unlessSet(key string) string {
	if s.has(key) {
		return ""
	}
	return ", its default"
}

// times cannot overflow: a count is at most MaxCount, a time at most MaxTimeout.
func times(n int, d time.Duration) time.Duration { return time.Duration(n) * d }
