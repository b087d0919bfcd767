package graph

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/guard"
)

// Sources are the sources of settings other than flags.
type Sources struct {
	// EnvPrefix is the prefix of environment variable names, without the underscore.
	EnvPrefix string
	// LookupEnv reads an environment variable. Required.
	LookupEnv func(string) (string, bool)
	// Environ lists all variables as NAME=value, to find mistyped ones. If nil, none are checked.
	Environ func() []string
	// FileFlag is the setting that names the settings file; empty for no file.
	FileFlag string
	// ReadFile reads that file, if the setting is not empty. Entries returned along with an error are used; an error without
	// entries means that the file could not be read.
	ReadFile func(path string) ([]FileEntry, error)
	// Await calls fn on its own goroutine and waits for it for a limited time; what names fn in messages. An error that wraps
	// cell.ErrOverdue means that fn may still be running. If nil, there is no limit.
	Await func(what string, fn func() error) error
}

func (from Sources) await(what string, fn func() error) error {
	if from.Await != nil {
		return from.Await(what, fn)
	}
	return <-guard.Go(fn)
}

// FileEntry is a key in a settings file and its value.
type FileEntry struct {
	Key      string
	Position string // file:line
	Value    any    // string, []string or map[string]string; nil, which no setting accepts, for any other value
}

// Configure sets each setting that no flag has set from the environment, or else from the file, and then validates. Call it after
// parsing flags and before Construct. It returns all errors, joined: *ConfigError, *UnknownKeyError and those of ReadFile. It logs
// deprecated settings that are set; pflag does so for flags.
func (g *Graph) Configure(from Sources) error {
	err := g.settings.configure(from)
	for _, s := range g.settings.all {
		if s.deprecated != "" && s.origin != "" {
			g.options.Logger.Warn("A setting is deprecated", "module", s.block.scope.full, "setting", s.flag, "origin", s.origin, "instead", s.deprecated)
		}
	}
	return err
}

// configure sets and validates all settings. The functions of the sources may panic or end their goroutine.
func (ss *settings) configure(from Sources) error {
	return <-guard.Go(func() error { return ss.readAll(from) })
}

func (ss *settings) readAll(from Sources) error {
	entries, errs := ss.fromFile(from)
	errs = append(errs, ss.mistyped(from)...)
	for _, s := range ss.all {
		errs = append(errs, s.blame(s.configure(from, entries)))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, b := range ss.blocks {
		err := b.validate(from)
		if errs = append(errs, err); errors.Is(err, cell.ErrOverdue) {
			return errors.Join(errs...)
		}
		b.ready = true
	}
	return errors.Join(errs...)
}

// Settings returns all settings with their current values, sorted by name.
func (g *Graph) Settings() []cell.Setting {
	var all []cell.Setting
	for _, s := range g.settings.all {
		shown := cell.Setting{
			Name: s.flag, Module: s.block.scope.full, Usage: s.usage, Secret: s.value.secret,
			Value: s.value.String(), Default: s.byDefault, Origin: s.origin, Err: s.fault,
		}
		if s.value.given {
			shown.Origin = "flag"
		}
		shown.Origin = cmp.Or(shown.Origin, "default")
		all = append(all, shown)
	}
	slices.SortFunc(all, func(a, b cell.Setting) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// EnvName returns the name of a flag's environment variable.
func EnvName(prefix, flag string) string {
	return prefix + "_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromFile reads the file named by the flag or the environment.
func (ss *settings) fromFile(from Sources) (entries map[string]FileEntry, errs []error) {
	which := ss.byFlag[from.FileFlag]
	if which == nil {
		return nil, nil
	}
	if err := which.configure(from, nil); err != nil {
		return nil, nil // configure reports it with the others
	}
	path := which.value.String()
	if path == "" {
		return nil, nil
	}
	list, err := from.read(path)
	if err != nil {
		err = &cell.ConfigError{Module: which.block.scope.full, Origin: which.whence(), Value: path, Err: err}
		errs = append(errs, err)
		if len(list) == 0 {
			which.fault = err
		}
	}
	entries, refused := ss.admit(list, from.FileFlag)
	return entries, append(errs, refused...)
}

// read limits the time of ReadFile: the file may be a pipe.
func (from Sources) read(path string) ([]FileEntry, error) {
	var list []FileEntry
	var failed error
	if err := from.await("reading "+path, func() error { list, failed = from.ReadFile(path); return nil }); err != nil {
		return nil, err
	}
	return list, failed
}

// maxUnknown is the number of unknown keys reported individually.
const maxUnknown = 500

// admit rejects keys that are unknown, duplicate or not allowed in a file.
func (ss *settings) admit(list []FileEntry, fileFlag string) (entries map[string]FileEntry, errs []error) {
	known := slices.Sorted(maps.Keys(ss.byFlag))
	known = slices.DeleteFunc(known, func(k string) bool { return k == fileFlag })
	entries, unknown := make(map[string]FileEntry), 0
	for _, e := range list {
		if first, twice := entries[e.Key]; twice {
			err := fmt.Errorf("%s: the key %.100q is already at %s", e.Position, e.Key, first.Position)
			errs = append(errs, ss.byFlag[e.Key].blame(err))
		} else if ss.byFlag[e.Key] == nil || e.Key == fileFlag {
			if unknown++; unknown <= maxUnknown {
				errs = append(errs, &cell.UnknownKeyError{Location: e.Position, Key: e.Key, Known: meant(e.Key, known)})
			}
		}
		entries[e.Key] = e
	}
	if unknown > maxUnknown {
		errs = append(errs, fmt.Errorf("and %d more unknown keys", unknown-maxUnknown))
	}
	return entries, errs
}

// mistyped rejects variables whose names are close to that of a setting. Other variables with the prefix may have another owner:
// Kubernetes, for example, sets some for every service, prefixed with the service name.
func (ss *settings) mistyped(from Sources) (errs []error) {
	if from.Environ == nil {
		return nil
	}
	known := make([]string, len(ss.all))
	for i, s := range ss.all {
		known[i] = EnvName(from.EnvPrefix, s.flag)
	}
	for _, variable := range from.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		suffix, ours := strings.CutPrefix(name, from.EnvPrefix+"_")
		if !ours || slices.Contains(known, name) {
			continue
		}
		if best, ok := nearest(name, known, min(2, len(suffix)/4)); ok {
			errs = append(errs, &cell.UnknownKeyError{Location: "environment", Key: name, Known: []string{best}})
		}
	}
	return errs
}

// configure sets the setting from the first source that has it.
func (s *setting) configure(from Sources, entries map[string]FileEntry) error {
	if s.value.refused != nil {
		return &cell.ConfigError{Module: s.block.scope.full, Origin: "--" + s.flag, Value: cell.Redacted, Err: s.value.refused}
	}
	if s.value.given {
		return nil
	}
	variable := EnvName(from.EnvPrefix, s.flag)
	if text, ok := from.LookupEnv(variable); ok {
		return s.assign(from, "environment variable "+variable, "", text)
	}
	if e, ok := entries[s.flag]; ok {
		return s.assign(from, e.Position, ": "+s.flag, e.Value)
	}
	return nil
}

func (s *setting) assign(from Sources, origin, key string, given any) error {
	var parsed reflect.Value
	err := from.await("parsing "+origin+key, func() (err error) { parsed, err = s.value.parsed(given); return err })
	if err == nil {
		s.value.field.Set(parsed)
		s.origin = origin
		return nil
	}
	shown, isText := given.(string)
	switch {
	case s.value.secret:
		shown = cell.Redacted
	case !isText:
		shown = "…"
	}
	return &cell.ConfigError{Module: s.block.scope.full, Origin: origin + key, Value: shown, Err: err}
}

// blame records err as a fault of the setting, which may be nil, and returns err.
func (s *setting) blame(err error) error {
	if s != nil {
		s.fault = errors.Join(s.fault, err)
	}
	return err
}

// whence returns the origin of the value.
func (s *setting) whence() string {
	if s.value.given {
		return "--" + s.flag
	}
	return s.origin
}

// validator checks a configuration that has been read.
type validator interface{ Validate() error }

func (b *block) validate(from Sources) error {
	v, ok := b.target.Interface().(validator)
	if !ok {
		return nil
	}
	what := "Validate of " + b.name
	if err := from.await(what, v.Validate); err != nil {
		if errors.Is(err, cell.ErrPanic) || errors.Is(err, cell.ErrGoexit) || errors.Is(err, cell.ErrOverdue) {
			err = fmt.Errorf("%s: %w", what, err) // errors that Validate returns already name the setting
		}
		return &cell.ConfigError{Module: b.scope.full, Err: err}
	}
	return nil
}
