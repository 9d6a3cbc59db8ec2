package wire

import "fmt"

// ShortError: the bytes at hand are fewer than the field or message needs.
type ShortError struct {
	What      string
	Got, Need int
}

func (e *ShortError) Error() string {
	return fmt.Sprintf("%s is too short: %d bytes, needs %d", e.What, e.Got, e.Need)
}

// SizeError: a length that the format can't carry.
type SizeError struct {
	What     string
	Got, Min int
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("size of a %s is %d bytes, must be at least %d", e.What, e.Got, e.Min)
}

// FormatError: a field holds what no iperf 2 writes there.
type FormatError struct {
	What string
	Got  uint32
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%s is %#08x, which no iperf 2 writes there", e.What, e.Got)
}
