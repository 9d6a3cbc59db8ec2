package prober

import (
	"net"
	"net/netip"
	"strconv"
	"testing"
)

// A zone must not make two servers of one: everything that is promised for an
// address is kept under it.
func TestZonesDoNotMultiplyAServer(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Skip(err)
	}
	for zone, want := range map[string]string{
		"::1%lo":                            "::1",
		"::1%99":                            "::1",
		"2001:db8::1%x":                     "2001:db8::1",
		"fe80::1%lo":                        "fe80::1%lo",
		"fe80::1%" + strconv.Itoa(lo.Index): "fe80::1%lo",
		"fe80::1%nosuchdevice":              "",
		"fe80::1%999999":                    "",
		"fe80::1":                           "fe80::1",
		"::1":                               "::1",
	} {
		got, err := dialable(netip.MustParseAddr(zone))
		switch {
		case want == "" && err == nil:
			t.Errorf("%s was taken as %s", zone, got)
		case want != "" && (err != nil || got.String() != want):
			t.Errorf("%s became %v (%v), want %s", zone, got, err, want)
		}
	}
}
