// Package promcompat tests what a real Prometheus makes of our exposition: its
// parser, its storage and its PromQL engine, of the release that go.mod names, in
// this process. It holds nothing but tests.
package promcompat
