package wire

// FirstWord is what a server makes of the first four bytes of a connection.
type FirstWord uint8

// Kinds of first word.
const (
	// FirstOther is no word that an iperf 2 client sends: text, TLS, noise.
	FirstOther FirstWord = iota
	// FirstBounce is a bounce message of layout B or C. With the start bit set,
	// servers look at no other bit but AckRequest.
	FirstBounce
	// FirstBounceA is a bounce message of layout A.
	FirstBounceA
	// FirstTest is a test header.
	FirstTest
	// FirstData is an upload without a header: its first word is data already.
	FirstData
)

// Bits that no iperf 2 client sets in a test header. Each ASCII text has one of
// them, because its second byte is 0x20 to 0x7e.
const notInTest uint32 = 0x007e0000

// digits is how an iperf 2.0 client's headerless upload begins.
const digits uint32 = 0x30313233

// ClassifyFirst tells what a connection whose first four bytes are w begins with,
// for a server of all releases. A real 2.1.7 takes any word with the bit StartA
// for a bounce message; here that bit alone counts, because later releases use it
// in test headers.
func ClassifyFirst(w uint32) FirstWord {
	switch {
	case w&StartBC != 0:
		return FirstBounce
	case w&^AckRequest == StartA:
		return FirstBounceA
	case w == 0 || w == digits:
		return FirstData
	case w&notInTest != 0:
		return FirstOther
	case w&(FlagExtend|FlagVersion2|FlagDual) != 0:
		return FirstTest
	}
	return FirstOther
}
