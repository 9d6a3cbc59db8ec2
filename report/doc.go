// Package report turns the result of a probe into something to read or to keep:
// a report for people (Text), JSON for scripts (JSON) and the stamps of every
// bounce (Raw).
//
// It knows nothing of Prometheus and does no input or output but to the writer it
// is given. What was not measured is absent from all three forms. docs/REPORT.md
// describes them.
package report
