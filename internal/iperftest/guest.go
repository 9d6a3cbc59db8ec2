package iperftest

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// guestQuiet is how long before the end of the stock test visits must be over: no
// release up to 2.1.8 stands the end of one connection in the handshake of another
// one from the same host, and the stock client takes no care.
const guestQuiet = time.Second

// WhileStockRuns is the test of a good guest. It starts a stock client's test of
// the given length on the server and calls visit, with a context that ends in good
// time before that test does; what visit has started must be over by its return.
// Then the stock test must have ended complete and in its own time (at most late
// beyond it), the server must live, must not have logged any trouble and must have
// no half-ended socket left, and one more stock test must be clean too. The error
// says what of this is not so, and what the server and the client said.
func (s *Server) WhileStockRuns(length, late time.Duration, visit func(ctx context.Context)) error {
	s.t.Helper()
	stock := StartStock(s.t, nil, s.Addr, length)
	started := time.Now()
	for !strings.Contains(s.Log(), "connected with") {
		if time.Since(started) > 5*time.Second {
			return fmt.Errorf("the stock client does not get through:\n%s", s.Log())
		}
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithDeadline(context.Background(), started.Add(length-guestQuiet))
	visit(ctx)
	cancel()
	if left := time.Until(started.Add(length)); left < 100*time.Millisecond {
		return fmt.Errorf("the visits were over %v before the end of the stock test: nothing can be said of it", left)
	}
	if r, err := stock.Wait(late); err != nil {
		return fmt.Errorf("the stock client's test was disturbed: %w\n%s\nserver:\n%s", err, r.Output, tail(s.Log()))
	}
	if err := s.Clean(); err != nil {
		return err
	}
	time.Sleep(200 * time.Millisecond)
	if r, err := StartStock(s.t, nil, s.Addr, time.Second).Wait(max(late, Late)); err != nil {
		return fmt.Errorf("a stock test after the visits: %w\n%s\nserver:\n%s", err, r.Output, tail(s.Log()))
	}
	s.CheckNoCloseWait(time.Second)
	return s.Clean()
}
