package config

import (
	"sync"
	"sync/atomic"
	"time"
)

// Store holds the configuration in force and loads it anew on demand. It is safe
// for concurrent use.
type Store struct {
	paths   []string
	now     func() time.Time
	reload  sync.Mutex // one reload at a time
	current atomic.Pointer[Config]
	status  atomic.Pointer[ReloadStatus]
}

// ReloadStatus is what became of the loads of a Store, its first one included.
type ReloadStatus struct {
	Attempts uint64 // loads that were tried
	Failures uint64 // of these, how many left the configuration as it was
	// Successful tells whether the last one put its files into force.
	Successful bool
	// LastSuccess is when the configuration in force was loaded.
	LastSuccess time.Time
	// Err is why the last one failed; nil if it did not.
	Err error
}

// StoreOption changes how a Store works.
type StoreOption func(*Store)

// WithClock has the store take its time from now, which is time.Now otherwise.
func WithClock(now func() time.Time) StoreOption { return func(s *Store) { s.now = now } }

// NewStore loads the configuration for the first time; see Load. An error means
// that there is no store.
func NewStore(paths []string, options ...StoreOption) (*Store, error) {
	s := &Store{paths: append([]string(nil), paths...), now: time.Now}
	for _, o := range options {
		o(s)
	}
	s.status.Store(&ReloadStatus{})
	if err := s.Reload(); err != nil {
		return nil, err
	}
	return s, nil
}

// Current is the configuration in force. Whoever works with it keeps working with
// it while a reload goes on; nobody changes it.
func (s *Store) Current() *Config { return s.current.Load() }

// Status is a copy of what became of the loads so far.
func (s *Store) Status() ReloadStatus { return *s.status.Load() }

// Reload loads the files again, globs included, and puts them into force once all
// of them are valid. Otherwise it returns every mistake (Errors), and the old
// configuration stays. Reloads that are asked for at once follow one another.
func (s *Store) Reload() error {
	s.reload.Lock()
	defer s.reload.Unlock()
	c, err := Load(s.paths)
	next := s.Status()
	next.Attempts++
	next.Successful, next.Err = err == nil, err
	if err != nil {
		next.Failures++
	} else {
		next.LastSuccess = s.now()
		s.current.Store(c)
	}
	s.status.Store(&next)
	return err
}
