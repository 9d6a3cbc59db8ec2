// Package fakeserver is a peer for tests that misbehaves by script: it is
// silent, slow, short, wrong or resetting, at a chosen byte of a chosen reply,
// and it keeps a journal of what the client did to it. It also has a relay that
// forwards slowly to a real server.
//
// It exists for the faults that a real iperf 2 server can't be made to commit.
// For everything else use a real server, or the responder package.
//
// The zero Script is an honest server that tells version 2.2.0 and honours hold.
// Everything listens on loopback, and ends with the test that started it.
package fakeserver
