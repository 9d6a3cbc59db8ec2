// Package responder is a small server for iperf 2's --bounceback: it answers the
// bounce messages of every release that has them (2.1.7 and newer), requests for
// its version, and the load streams that run beside a bounce test.
//
// What it does that real servers of some release do not: it honours hold, a reply
// size, the stop bit and the TOS byte, all at once; a slow, silent or hostile
// client holds up nobody else; and everything is bounded. In acks it tells
// OwnVersion, 2.2.99: from 2.2.0 on clients use layout C and may ask for a reply
// size, and no release has that patch level, so nobody takes it for one.
//
// Loads are on, because a bounceback test with --bounceback-congest (or
// --working-load) would otherwise fail, but bounded in number and time
// (Options.MaxLoadStreams, Options.MaxLoadDuration): whoever reaches the port can
// make this host send at most so long on so many connections, and only to himself.
// A permit key is not checked: it is taken for data. A load of the legacy dual
// test, which asks the server to connect back, is only received.
//
// Not a first message of any iperf 2 client (text, TLS, noise, sizes out of range):
// the connection is closed without an answer, and counted.
package responder
