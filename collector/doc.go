// Package collector turns the result of a probe into metric families, and keeps
// the exporter's own metrics. It measures nothing: what a Result does not hold is
// absent from its families, never zero and never NaN.
package collector
