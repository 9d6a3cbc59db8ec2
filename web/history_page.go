package web

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// historyPage lists the recent probes, newest first; target, module and outcome
// narrow the list.
func (h *Handler) historyPage(w http.ResponseWriter, r *http.Request) {
	f, err := parseFilter(r.URL.RawQuery)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.pages.show(w, "history", "Recent probes", struct {
		Filter   filter
		Outcomes []Outcome
		Entries  []*Entry
		Limit    int
	}{f, []Outcome{Succeeded, Failed, Rejected}, h.history.find(f, h.history.limit), h.history.limit})
}

// latestPage leads to the newest probe that matches: a link for an alert.
func (h *Handler) latestPage(w http.ResponseWriter, r *http.Request) {
	f, err := parseFilter(r.URL.RawQuery)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	found := h.history.find(f, 1)
	if len(found) == 0 {
		http.Error(w, "no probe in the history matches", http.StatusNotFound)
		return
	}
	http.Redirect(w, r, h.urls.path("/history/"+strconv.FormatUint(found[0].ID, 10)), http.StatusFound)
}

// entryPage shows one probe.
func (h *Handler) entryPage(w http.ResponseWriter, r *http.Request) {
	local, _ := h.urls.local(r.URL.Path)
	id, err := strconv.ParseUint(strings.TrimPrefix(local, "/history/"), 10, 64)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	e, ok := h.history.get(id)
	if !ok {
		http.Error(w, fmt.Sprintf("probe %d is not in the history (any more)", id), http.StatusNotFound)
		return
	}
	var log bytes.Buffer
	writeLog(&log, e.Log)
	h.pages.show(w, "entry", fmt.Sprintf("Probe %d", id), struct {
		*Entry
		Advice  [2]string
		LogText string
	}{e, advice(e), log.String()})
}

// parseFilter is as strict as /probe.
func parseFilter(rawQuery string) (filter, error) {
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return filter{}, fmt.Errorf("query: %w", err)
	}
	for name, values := range query {
		if !slices.Contains([]string{"target", "module", "outcome"}, name) || len(values) > 1 {
			return filter{}, fmt.Errorf("parameter %q: allowed are target, module and outcome, each once", name)
		}
	}
	f := filter{query.Get("target"), query.Get("module"), Outcome(query.Get("outcome"))}
	if !slices.Contains([]Outcome{"", Succeeded, Failed, Rejected}, f.Outcome) {
		return filter{}, fmt.Errorf("parameter %q: %q is none of success, failed and rejected", "outcome", f.Outcome)
	}
	return f, nil
}
