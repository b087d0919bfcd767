package managedfile

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/steps"
	"github.com/statehive/statehive/statedb"
)

// record says what the agent knows about a file of its own. It is stored before the file is
// touched.
type record struct {
	// Existed is whether there was a file before.
	Existed bool `json:"existed,omitempty"`
	// Adopted is whether a document said to take it over.
	Adopted  bool   `json:"adopted,omitempty"`
	OnDelete string `json:"onDelete"`
	// Directory is the directory of the file.
	Directory identity  `json:"directory"`
	Original  *original `json:"original,omitempty"` // of a file that existed
	// Temporary is the file that the first version was written to before it was renamed.
	Temporary *temporary `json:"temporary,omitempty"`
	// Written has the hashes of the content that was last written or found in sync, and of the
	// one before it, which is still there if the process was killed. Files with other content
	// are neither removed nor restored.
	Written []string `json:"written"`
}

// wrote reports whether the content of a file is the agent's.
func (r record) wrote(is version) bool { return is.Hash != "" && slices.Contains(r.Written, is.Hash) }

// isOf reports whether the record belongs to a file in a directory. It does not if a symbolic
// link leads elsewhere now. If another directory has the same path, because it was replaced or
// something was mounted there, it belongs only to a file with the agent's content.
func (r record) isOf(in identity, is version) bool {
	return r.Directory == in || r.Directory.Path == in.Path && r.wrote(is)
}

// leaves reports whether a file is as the agent left it, or gone. Otherwise somebody has
// changed it, or the record is from an old backup.
func (r record) leaves(in identity, is version) bool {
	return r.isOf(in, is) && (!is.exists() || r.wrote(is))
}

// place returns the path at which the file was written, without symbolic links.
func (r record) place(key string) string { return path.Join(r.Directory.Path, path.Base(key)) }

// temporary distinguishes a temporary file from one that others have given the same name, content and times: they cannot choose when it was changed.
type temporary struct {
	Inode   uint64 `json:"inode"`
	Changed int64  `json:"changed"` // in nanoseconds of Unix time
}

func (s stamp) temporary() temporary { return temporary{s.Inode, s.Changed} }

// original is the state of a file before the agent touched it.
type original struct {
	Inode uint64 `json:"inode"`
	Size  int64  `json:"size"`
	Mode  Mode   `json:"mode"`
	Owner uint32 `json:"owner"`
	Group uint32 `json:"group"`
	Hash  string `json:"hash,omitempty"`
	// ACL is its access control list, as the kernel encodes it.
	ACL []byte `json:"acl,omitempty"`
	// Kept is whether its content is attached to the record.
	Kept bool `json:"kept,omitempty"`
}

func (o *original) attributes() attributes {
	return attributes{o.Mode, o.Owner, o.Group, string(o.ACL)}
}

// removable reports whether the file may be removed together with its document.
func (r record) removable() bool { return !r.Existed || r.Adopted }

// ErrForeign matches the errors of rows whose file was made by somebody else.
var ErrForeign = errors.New("it was not made by this agent")

// ForeignError is the error of a row whose file was made by somebody else. It matches
// [ErrForeign].
type ForeignError struct {
	Path string
	// What describes what is there.
	What string
	// Advice says what can be done.
	Advice string
}

// Error names the file and says what can be done.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s exists and was not made by this agent (it is a %s): %s", e.Path, e.What, e.Advice)
}

// Is reports whether target is [ErrForeign].
func (e *ForeignError) Is(target error) bool { return target == ErrForeign }

// operation holds what the rows of one batch share.
type operation struct {
	target   *Target
	txn      statedb.ReadTxn
	folders  *folders
	owners   *owners
	claims   *claims
	compares bool // the contents are compared and not written, and so not kept
}

func (t *Target) begin(txn statedb.ReadTxn) *operation {
	return &operation{target: t, txn: txn, folders: &folders{answers: t.answers, opened: map[string]opened{}}, owners: newOwners(), claims: t.claims}
}

func (o *operation) close() { o.folders.close() }

// state compares the file of a row with what is desired.
type state struct {
	row       File
	folder    *folder
	content   string
	rendering *rendering
	want      version // without what only an existing file has
	is        version
	rec       record
	recorded  bool // rec belongs to this file
	known     bool // there is a record, which may be of a file in another directory
}

// look finds out the states of rows' files, and calls then with each. A state that is not nil may
// have an error, too.
func (o *operation) look(ctx context.Context, rows []File, then func(i int, s *state, err error)) {
	states, errs := make([]*state, len(rows)), make([]error, len(rows))
	for i, row := range rows {
		if row, errs[i] = row.Normalized(); errs[i] != nil {
			errs[i] = reconciler.Terminal(errs[i])
		} else if errs[i] = ctx.Err(); errs[i] == nil {
			states[i] = &state{row: row}
		}
	}
	directory := func(i int) string { return path.Dir(rows[i].Path) }
	byDirectory(len(rows), directory, func(i int) {
		if errs[i] == nil {
			states[i].folder, errs[i] = o.open(rows[i].Path)
		}
	})
	for i := range rows { // in the order of the rows, because the first one gets a file that several lead to
		if errs[i] == nil {
			errs[i] = o.want(ctx, states[i])
		}
	}
	byDirectory(len(rows), directory, func(i int) {
		if errs[i] == nil {
			errs[i] = o.compare(states[i])
		}
		then(i, states[i], errs[i])
	})
}

// want finds out what a row's file is to be.
func (o *operation) want(ctx context.Context, s *state) (err error) {
	row := s.row
	if other := o.claims.claim(row.Key(), s.folder.placeOf(row.Key())); other != "" {
		return fmt.Errorf("file %s: the path leads to the same file as %s, which has a document, or had one until a moment ago: expected one document of it", row.Path, other)
	}
	s.content, s.rendering, err = o.target.contentOf(ctx, o.txn, row)
	if err == nil {
		s.want, err = o.wanted(row, s.content)
	}
	if o.compares {
		s.content = ""
	}
	if err != nil {
		return fmt.Errorf("file %s: %w", row.Path, err)
	}
	return nil
}

// compare finds out what a row's file is.
func (o *operation) compare(s *state) (err error) {
	row := s.row
	if !o.compares { // a plan changes nothing
		if err := o.target.settle(row.Key()); err != nil {
			return err
		}
	}
	if s.is, err = o.target.look(row.Key(), s.folder); err != nil {
		return err
	}
	if r := s.rendering; r != nil && r.lacks != nil && s.is.Hash != s.want.Hash {
		return fmt.Errorf("file %s is left as it is: template: %w", row.Path, r.lacks)
	}
	var rec record
	rec, s.known = o.target.records.Get(row.Path)
	switch {
	case s.known && rec.isOf(s.folder.identity, s.is):
		s.rec, s.recorded = rec, true
	case s.known && rec.Original != nil && row.OnDelete == Restore:
		return fmt.Errorf("file %s: the path leads to another directory than before, or the directory was made anew, and what was there before is still to be given back as %s: "+
			"have it lead there again; or copy what it held, which is kept as %s, if you want it, and delete the document first", row.Path, rec.place(row.Path), o.target.records.AttachmentFile(row.Path))
	case s.known && rec.Directory.Path == s.folder.identity.Path && !s.is.exists():
		// The directory was made again, or its disk is away. If that comes back, it is still known whose the file was.
		s.rec, s.recorded = rec, true
	}
	return s.foreign()
}

// open opens the directory of a file, after checks that it may be written.
func (o *operation) open(file string) (*folder, error) {
	if err := o.allow(file, file); err != nil {
		return nil, err
	}
	f, err := o.folders.of(file)
	if err == nil && f.path != path.Dir(file) {
		if err := o.allow(file, path.Join(f.path, path.Base(file))); err != nil {
			return nil, err
		}
	}
	if err != nil {
		err = fmt.Errorf("file %s: %w", file, err)
	}
	if errors.Is(err, errNoDisk) {
		err = reconciler.Terminal(err)
	}
	return f, err
}

// allow returns an error if a file must not be written at a path. To find that out, the path is
// followed.
func (o *operation) allow(file, at string) error {
	a := o.target.answers
	err := a.admit(path.Dir(at))
	var refused error
	if err == nil {
		refused, err = within(a, a.patience, path.Dir(at), func() (error, error) { return o.target.allow(at), nil }, nil)
	}
	switch {
	case err != nil:
		return fmt.Errorf("file %s: %w", file, err)
	case refused != nil:
		return reconciler.Terminal(fmt.Errorf("file %s: %w", file, refused))
	}
	return nil
}

// wanted returns the desired version of a row's file.
func (o *operation) wanted(row File, content string) (v version, err error) {
	v.Mode, v.Size, v.Hash = row.Mode, int64(len(content)), hashOf([]byte(content))
	if v.Owner, err = o.owners.user(row.Owner); err != nil {
		return v, err
	}
	v.Group, err = o.owners.group(row.Group)
	return v, err
}

// foreign returns an error if the file was made by somebody else. A file that is as declared is
// accepted: see the package comment.
func (s *state) foreign() error {
	switch {
	case !s.is.exists():
		return nil
	case !s.is.regular():
		return &ForeignError{s.row.Path, s.is.describe(), "it is left alone; remove it, or declare another path"}
	case !s.recorded && !s.row.Adopt && !s.inSync():
		return &ForeignError{s.row.Path, s.is.describe(), "declare it as it is, or take it over with adopt: true"}
	}
	return nil
}

// inSync reports whether the file is as declared.
func (s *state) inSync() bool { return s.is.exists() && len(differences(s.is, s.want)) == 0 }

// differences compares an existing file with its desired version.
func differences(is, want version) []steps.Step {
	var due []steps.Step
	if is.Hash != want.Hash {
		due = steps.Field("content", is.content(), want.content(), nil)
	}
	due = append(due, steps.Field("mode", is.Mode, want.Mode, nil)...)
	due = append(due, steps.Field("owner", id(is.Owner), id(want.Owner), nil)...)
	due = append(due, steps.Field("group", id(is.Group), id(want.Group), nil)...)
	return append(due, steps.Field("acl", aclText(is.ACL), aclText(want.ACL), nil)...)
}

func id(number uint32) string { return strconv.FormatUint(uint64(number), 10) }

// steps returns the steps that are due.
func (s *state) steps() []steps.Step {
	if !s.is.exists() {
		due := steps.Field("path", "", s.row.Path, nil)
		due = append(due, steps.Field("content", "", s.want.content(), nil)...)
		due = append(due, steps.Field("mode", "", s.want.Mode.String(), nil)...)
		due = append(due, steps.Field("owner", "", id(s.want.Owner), nil)...)
		return append(due, steps.Field("group", "", id(s.want.Group), nil)...)
	}
	due := differences(s.is, s.want)
	if s.recorded {
		due = append(due, steps.Field("onDelete", s.rec.OnDelete, s.row.OnDelete, nil)...)
	}
	if s.recorded && s.row.Adopt && !s.rec.removable() {
		due = append(due, steps.Field("adopt", false, true, nil)...)
	}
	return due
}

// newRecord returns the record that the file is to have.
func (s *state) newRecord() record {
	r := s.rec
	if !s.recorded {
		r = record{Existed: s.is.exists()}
	}
	r.Directory = s.folder.identity
	r.Adopted = r.Adopted || r.Existed && s.row.Adopt
	r.OnDelete = s.row.OnDelete
	if !s.recorded && r.Existed {
		r.Original = &original{
			Inode: s.is.Inode, Size: s.is.Size, Mode: s.is.Mode, Owner: s.is.Owner, Group: s.is.Group, Hash: s.is.Hash, ACL: []byte(s.is.ACL),
		}
	}
	if !r.wrote(s.want) {
		r.Written = []string{s.want.Hash}
		if s.rec.wrote(s.is) {
			r.Written = append(r.Written, s.is.Hash)
		}
	}
	return r
}
