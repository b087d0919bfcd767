package managedfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"os"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/ownership"
	"github.com/statehive/statehive/reconciler/target/steps"
	"github.com/statehive/statehive/statedb"
)

// Config says how a target works.
type Config struct {
	// Owned is the state directory. Required.
	Owned *ownership.Store
	// DB has the tables that templates read. If it is nil, such templates fail.
	DB *statedb.DB
	// Allow, if not nil, returns an error for files that must not be written. It is called with
	// the path of a row, and with the path without symbolic links if that differs. Rows with
	// such paths fail terminally.
	Allow func(path string) error
	// Logger gets what is not an error of a row. If it is nil, nothing is logged.
	Logger *slog.Logger
}

// Target writes files.
type Target struct {
	reconciler.NoPrune[File]

	db         *statedb.DB
	allow      func(path string) error
	log        *slog.Logger
	records    *ownership.Records[record]
	pending    *ownership.Records[[]pending]
	writings   atomic.Uint64 // number of announced writings
	left       leftovers
	unsettled  unsettled
	versions   *versions
	claims     *claims
	answers    *answers
	tables     tables
	renderings *renderings
	due        chan Key // rows to update
	// Tests replace these.
	reached  func(step string)
	now      func() time.Time
	hostname func() (string, error)
	accounts [2]string // the files of users and groups
}

var (
	_ reconciler.BatchTarget[File] = (*Target)(nil)
	_ reconciler.Observer[File]    = (*Target)(nil)
	_ reconciler.BatchDiffer[File] = (*Target)(nil)
)

// New returns a target. Errors are those of opening its records.
func New(cfg Config) (*Target, error) {
	records, err := ownership.NewLastingRecords[record](cfg.Owned, "file")
	if err != nil {
		return nil, err
	}
	writing, err := ownership.NewLastingRecords[[]pending](cfg.Owned, "file-writing")
	if err != nil {
		return nil, err
	}
	t := &Target{
		db: cfg.DB, allow: cfg.Allow, log: cfg.Logger, records: records, pending: writing,
		versions: newVersions(), claims: newClaims(), answers: newAnswers(), left: leftovers{byIn: map[string][]string{}}, renderings: newRenderings(), due: make(chan Key), reached: func(string) {}, now: time.Now, hostname: os.Hostname, accounts: [2]string{"/etc/passwd", "/etc/group"},
	}
	if t.allow == nil {
		t.allow = func(string) error { return nil }
	}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	return t, nil
}

// Init implements reconciler.Target. It removes temporary files that a killed process has left,
// and the records of files that the agent made and others have removed.
func (t *Target) Init(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := t.recover(ctx); err != nil {
		return err
	}
	o := t.begin(nil)
	defer o.close()
	var gone []string
	var mu sync.Mutex
	o.eachRecorded(ctx, func(name string, rec record) {
		if rec.Original != nil {
			return // there is something to restore
		}
		f, err := o.folders.of(rec.place(name))
		if err != nil || f.identity != rec.Directory {
			return // the disk may be mounted later
		}
		if is, err := t.lookAtName(f, name); err == nil && !is.exists() {
			mu.Lock()
			defer mu.Unlock()
			gone = append(gone, name)
		}
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	var errs []error
	for _, err := range t.records.RemoveAll(gone) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// eachRecorded calls do for each recorded file, for different directories at the same time. If ctx
// ends, it leaves out the rest.
func (o *operation) eachRecorded(ctx context.Context, do func(name string, rec record)) {
	records := maps.Collect(o.target.records.All())
	names := slices.Sorted(maps.Keys(records))
	byDirectory(len(names), func(i int) string { return records[names[i]].Directory.Path }, func(i int) {
		if ctx.Err() == nil {
			do(names[i], records[names[i]])
		}
	})
}

// lookAtName returns the stamp of what is at a name, without reading it.
func (t *Target) lookAtName(f *folder, name string) (is stamp, err error) {
	return ask(t.answers, f, func(f *folder) (stamp, error) {
		stat, err := f.stat(path.Base(name))
		if errors.Is(err, unix.ENOENT) {
			return stamp{}, nil
		}
		if err != nil {
			return stamp{}, fmt.Errorf("look at file %s: %w", name, err)
		}
		return stampOf(&stat), nil
	})
}

// Update implements reconciler.Target.
func (t *Target) Update(ctx context.Context, txn statedb.ReadTxn, row File) (reconciler.Result, error) {
	result := t.UpdateBatch(ctx, txn, []File{row})[0]
	return result.Result, result.Err
}

// UpdateBatch implements reconciler.BatchTarget.
func (t *Target) UpdateBatch(ctx context.Context, txn statedb.ReadTxn, rows []File) []reconciler.BatchResult {
	results := make([]reconciler.BatchResult, len(rows))
	o := t.begin(txn)
	defer o.close()
	states := make([]*state, len(rows))
	kept := make([]*record, len(rows)) // to be stored before the file is touched
	o.look(ctx, rows, func(i int, s *state, err error) {
		if s != nil && ctx.Err() == nil {
			t.renderings.note(rows[i].Key(), s.rendering)
		}
		if err == nil {
			kept[i], err = t.recordFor(s)
		}
		if results[i].Err = err; err == nil {
			states[i] = s
		}
	})
	writes := make([]*writing, len(rows))
	records := map[string]record{}
	var all []*writing
	for i, s := range states {
		switch {
		case s == nil:
		case !s.inSync():
			writes[i] = s.writing(kept[i])
			all = append(all, writes[i])
		case kept[i] != nil:
			records[s.row.Path] = *kept[i]
		}
	}
	t.reached("looked")
	if err := ctx.Err(); err != nil {
		return endedResults(results, err)
	}
	unrecorded := t.records.PutAll(records)
	t.writeAll(ctx, all)
	for i, s := range states {
		if s == nil {
			continue
		}
		results[i].Err = unrecorded[s.row.Path]
		if writes[i] != nil {
			results[i].Err = writes[i].err
		}
		if results[i].Err == nil {
			results[i].Result.Changed = len(s.steps()) > 0
			t.versions.noteMade(s.row.Key(), s.want)
		}
	}
	t.noteOnDelete(rows, results)
	return results
}

// noteOnDelete stores what is to become of files that could not be brought into the desired state: their documents may go while the agent
// does not run, and then only the records are left.
func (t *Target) noteOnDelete(rows []File, results []reconciler.BatchResult) {
	records := map[string]record{}
	for i, row := range rows {
		onDelete := cmp.Or(row.OnDelete, Remove)
		if rec, known := t.records.Get(row.Path); known && results[i].Err != nil && checkOnDelete(onDelete) == nil && rec.OnDelete != onDelete {
			rec.OnDelete = onDelete
			records[row.Path] = rec
		}
	}
	errs := t.records.PutAll(records)
	for i, row := range rows {
		if err := errs[row.Path]; err != nil {
			results[i].Err = errors.Join(results[i].Err, err)
		}
	}
}

// endedResults sets an error for all that have none yet.
func endedResults(results []reconciler.BatchResult, err error) []reconciler.BatchResult {
	for i := range results {
		if results[i].Err == nil {
			results[i].Err = err
		}
	}
	return results
}

// recordFor returns the record to store before the file is touched, or nil if the present one
// is sufficient. It keeps the original content if needed.
func (t *Target) recordFor(s *state) (*record, error) {
	rec := s.newRecord()
	kept, err := t.keepOriginal(s, rec)
	if err != nil {
		return nil, err
	}
	if kept {
		original := *rec.Original
		original.Kept = true
		rec.Original = &original
	}
	// A record of a temporary file that was never renamed does not hold for another one.
	outdated := s.rec.Temporary != nil && !s.inSync()
	if s.recorded && !kept && !outdated && rec.OnDelete == s.rec.OnDelete && rec.Adopted == s.rec.Adopted && rec.Directory == s.rec.Directory && slices.Equal(rec.Written, s.rec.Written) {
		return nil, nil
	}
	return &rec, nil
}

// keepOriginal keeps the content of a file that existed before, if it is to be restored or is
// about to be lost.
func (t *Target) keepOriginal(s *state, rec record) (kept bool, err error) {
	if rec.Original == nil {
		return false, nil
	}
	if err := s.folder.checkOriginal(rec.Original); err != nil && s.row.OnDelete == Restore {
		return false, reconciler.Terminal(fmt.Errorf("file %s: what was there before cannot be restored: %w: expected onDelete to be %s or %s", s.row.Path, err, Remove, Keep))
	}
	if rec.Original.Kept {
		return false, nil
	}
	isOriginal := !s.recorded || s.is.Hash != "" && s.is.Hash == rec.Original.Hash
	if lost := isOriginal && !s.inSync(); !lost && s.row.OnDelete != Restore {
		return false, nil
	}
	var is version
	data, err := ask(t.answers, s.folder, func(f *folder) (data []byte, err error) {
		data, is, err = read(f, path.Base(s.row.Path))
		return data, err
	})
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return false, fmt.Errorf("keep what file %s was before: %w", s.row.Path, err)
	}
	switch {
	case is.Hash != "" && is.Hash == rec.Original.Hash:
		return true, t.records.Attach(s.row.Path, data)
	case !s.recorded && rec.Original.Size <= MaxSize:
		return false, fmt.Errorf("file %s was changed by somebody else at this moment", s.row.Path)
	case s.row.OnDelete != Restore:
		return false, nil
	}
	return false, reconciler.Terminal(fmt.Errorf(
		"file %s: what was there before cannot be restored: its %d bytes were not kept (at most %d are): expected onDelete to be %s or %s",
		s.row.Path, rec.Original.Size, MaxSize, Remove, Keep))
}

// writing returns the writing that brings the file into the desired state.
func (s *state) writing(rec *record) *writing {
	return &writing{
		key: s.row.Key(), folder: s.folder, content: s.content, attributes: s.want.attributes(),
		absent: !s.is.exists(), record: rec, fresh: !s.known,
	}
}

// Diff implements reconciler.Differ.
func (t *Target) Diff(ctx context.Context, txn statedb.ReadTxn, row File) ([]reconciler.Change, error) {
	result := t.DiffBatch(ctx, txn, []File{row})[0]
	return result.Changes, result.Err
}

// DiffBatch implements reconciler.BatchDiffer.
func (t *Target) DiffBatch(ctx context.Context, txn statedb.ReadTxn, rows []File) []reconciler.DiffResult {
	o := t.begin(txn)
	defer o.close()
	o.claims, o.compares = newClaims(), true // the rows of a plan claim nothing
	results := make([]reconciler.DiffResult, len(rows))
	o.look(ctx, rows, func(i int, s *state, err error) {
		if results[i].Err = err; err == nil {
			results[i].Changes = steps.Changes(s.steps())
		}
	})
	return results
}

// Observe implements reconciler.Observer: it yields the recorded files that exist, and those
// that have still to be restored.
func (t *Target) Observe(ctx context.Context) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		o := t.begin(nil)
		defer o.close()
		var ours []File
		var mu sync.Mutex
		o.eachRecorded(ctx, func(name string, rec record) {
			if o.isOurs(name, rec) {
				mu.Lock()
				defer mu.Unlock()
				ours = append(ours, File{Path: name, OnDelete: rec.OnDelete})
			}
		})
		if err := ctx.Err(); err != nil {
			yield(File{}, err)
			return
		}
		for _, row := range ours {
			if !yield(row, nil) {
				return
			}
		}
	}
}

// isOurs reports whether there is anything to do for a recorded file that is no longer
// declared. If that cannot be found out, it reports true.
func (o *operation) isOurs(name string, rec record) bool {
	if rec.Original != nil {
		return true
	}
	f, err := o.folders.of(rec.place(name))
	if isAbsent(err) {
		return false
	}
	if err != nil {
		return true
	}
	is, err := o.target.lookAtName(f, name)
	return err != nil || is.regular()
}
