package web

import (
	"fmt"
	"net/url"
	"strings"
)

// URLs says where the pages are. The zero value is the root.
type URLs struct {
	route string // what requests begin with: "" or "/x"
	base  string // what links begin with, as the user's browser sees it: "" or "/x"
}

// NewURLs reads the values of --web.external-url and --web.route-prefix as
// Prometheus does: links begin with the path of the external URL, requests with
// the route prefix, which is that path unless given. (They differ behind a proxy
// that takes a part of the path away.)
func NewURLs(externalURL, routePrefix string) (URLs, error) {
	if strings.ContainsAny(externalURL, `"'`) {
		return URLs{}, fmt.Errorf("web.external-url %q: no quotes are allowed", externalURL)
	}
	external, err := url.Parse(externalURL)
	switch {
	case err != nil:
		return URLs{}, fmt.Errorf("web.external-url: %w", err)
	case external.Scheme != "" && external.Scheme != "http" && external.Scheme != "https",
		external.Scheme != "" && external.Host == "", external.Opaque != "":
		return URLs{}, fmt.Errorf("web.external-url %q: want http://host[:port][/path], https://... or /path", externalURL)
	case external.RawQuery != "" || external.Fragment != "":
		return URLs{}, fmt.Errorf("web.external-url %q: neither query nor fragment is allowed", externalURL)
	}
	u := URLs{base: asPrefix(external.Path)}
	u.route = u.base
	if routePrefix != "" {
		u.route = asPrefix(routePrefix)
	}
	return u, nil
}

// asPrefix gives a path a slash in front and none at the end.
func asPrefix(p string) string {
	if p = strings.Trim(p, "/"); p == "" {
		return ""
	}
	return "/" + p
}

// path is a link to a page of ours; p begins with a slash.
func (u URLs) path(p string) string { return (&url.URL{Path: u.base}).EscapedPath() + p }

// local takes the route prefix off the path of a request.
func (u URLs) local(p string) (string, bool) {
	rest, ok := strings.CutPrefix(p, u.route)
	if !ok || rest == "" || rest[0] != '/' {
		return "", false
	}
	return rest, true
}
