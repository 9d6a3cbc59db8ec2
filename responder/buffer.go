package responder

import "io"

// firstChunk is what is set aside for a message before more than its head came.
const firstChunk = 2048

// readMessage reads a message of size bytes that begins with head. Memory is set
// aside as bytes come, so that who only announces a large message costs little.
func readMessage(r io.Reader, head []byte, size int) ([]byte, error) {
	buf := make([]byte, min(size, firstChunk))
	for have := copy(buf, head); have < size; {
		if have == len(buf) {
			grown := make([]byte, min(size, 4*len(buf)))
			copy(grown, buf)
			buf = grown
		}
		n, err := io.ReadFull(r, buf[have:])
		have += n
		if err != nil {
			return nil, err
		}
	}
	return buf, nil
}

// withTail makes buf hold a reply of n bytes: what is beyond the request is digits,
// as iperf pads.
func withTail(buf []byte, n int) []byte {
	if n <= len(buf) {
		return buf
	}
	long := make([]byte, n)
	for i := copy(long, buf); i < n; i++ {
		long[i] = '0' + byte(i%10)
	}
	return long
}
