// Package wire is iperf 2's bytes: the bounce message in its three layouts,
// the acknowledgement in which a server tells its version, the test header that
// starts a load stream or a version request, and the bursts of loads with
// trip-times.
//
// The package is pure. It has no sockets, no clock and no logger, it encodes
// into buffers it is given and allocates nothing while doing so. All integers
// on the wire are big-endian; times are wall clock as seconds and microseconds,
// 32 bits each.
//
// The layouts were established against the releases 2.1.7, 2.1.8, 2.1.9, 2.2.0,
// 2.2.1 and the development head; docs/PROTOCOL.md tells what each one does.
package wire
