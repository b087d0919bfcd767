package file

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Errors of [Source.Approve], in addition to the error of its context and errors of the tables.
var (
	// ErrNothingToApprove is returned if no rows are kept in force because documents are absent.
	ErrNothingToApprove = errors.New("nothing waits for approval: the documents in the directory are in force")
	// ErrNotRunning is returned if Run was not called or has returned.
	ErrNotRunning = errors.New("the source of documents is not running")
)

// Approved is the result of an approval.
type Approved struct {
	Dir       string `json:"dir"`
	Rows      int    `json:"rows"`      // rows that are in force now
	Withdrawn int    `json:"withdrawn"` // rows that are no longer in force
}

// Approve accepts the directory as the desired state, exactly as it is now, although it is
// gone, on another device or without documents, or although files are gone while others that may declare
// the same are invalid or being written. Rows that no document declares are deleted
// from their tables; the limits of reconcilers on deletes still apply. Approve passes the
// request to Run and waits for the result.
func (s *Source) Approve(ctx context.Context) (Approved, error) {
	answer, err := s.approvals.ask()
	if err != nil {
		return Approved{}, err
	}
	select {
	case a := <-answer:
		return a.approved, a.err
	case <-ctx.Done():
		return Approved{}, ctx.Err()
	}
}

// answer is the answer to a request for approval.
type answer struct {
	approved Approved
	err      error
}

// approvals are requests that Run has to answer. It is safe for concurrent use.
type approvals struct {
	wake chan struct{} // holds a value when Run has to scan the directory now

	mu      sync.Mutex
	running bool
	pending []chan<- answer
}

// ask adds a request and returns a channel for the answer. The channel is buffered, so that
// answering never blocks.
func (a *approvals) ask() (<-chan answer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.running {
		return nil, ErrNotRunning
	}
	request := make(chan answer, 1)
	a.pending = append(a.pending, request)
	a.wakeRun()
	return request, nil
}

// wakeRun makes Run scan the directory now.
func (a *approvals) wakeRun() {
	select {
	case a.wake <- struct{}{}:
	default: // a value is already pending
	}
}

func (a *approvals) open() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running = true
}

// close refuses all requests that have not been answered.
func (a *approvals) close() {
	a.mu.Lock()
	a.running = false
	a.mu.Unlock()
	for _, request := range a.take() {
		request <- answer{err: ErrNotRunning}
	}
}

func (a *approvals) take() []chan<- answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	requests := a.pending
	a.pending = nil
	return requests
}

// answerApprovals answers each request after a scan of the directory for it. It returns
// the time until the next scan at the latest, and the error if the tables cannot be written.
func (s *Source) answerApprovals(ctx context.Context, follower follower) (again time.Duration, failed error) {
	again = s.config.Rescan
	for _, request := range s.approvals.take() {
		l := listing{approved: true}
		approved, err := s.approveNow(ctx, follower, &l)
		request <- answer{approved, err}
		again = min(again, l.again)
		var applying *applyError
		if errors.As(err, &applying) {
			failed = applying.err
		}
	}
	return again, failed
}

// applyError is an error in writing the tables.
type applyError struct{ err error }

func (e *applyError) Error() string { return e.err.Error() }
func (e *applyError) Unwrap() error { return e.err }

// approveNow approves the directory as it is.
func (s *Source) approveNow(ctx context.Context, follower follower, l *listing) (Approved, error) {
	before := s.published
	s.list(ctx, l, follower)
	switch {
	case l.err != nil && !absent(l.err):
		return Approved{}, fmt.Errorf("the directory %s cannot be approved while it cannot be listed: %w", s.config.Dir, withoutPath(l.err))
	case !before.unconfirmed:
		return Approved{}, ErrNothingToApprove
	}
	if err := s.process(ctx, l); err != nil {
		return Approved{}, &applyError{err}
	}
	if !l.confirmed {
		return Approved{}, ErrNothingToApprove
	}
	a := Approved{Dir: s.config.Dir, Rows: len(s.published.held)}
	for i := range before.held {
		if s.published.held[i] == nil {
			a.Withdrawn++
		}
	}
	s.log.Warn("Directory of documents approved manually", "dir", a.Dir, "rows", a.Rows, "withdrawn", a.Withdrawn)
	return a, nil
}
