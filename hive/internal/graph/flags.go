package graph

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/spf13/pflag"
)

var (
	flagName      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)
	flagShorthand = regexp.MustCompile(`^[A-Za-z0-9]?$`)
)

// vet reports why a new setting could not be set by a flag or an environment variable.
func (ss *settings) vet(s *setting) error {
	switch {
	case s.flag == "":
		return errors.New("its flag has no name")
	case !flagName.MatchString(s.flag):
		return fmt.Errorf("bad flag name %q: expected letters, digits, '-' and '_', beginning with a letter or digit", s.flag)
	case s.flag == "help" || s.shorthand == "h":
		return errors.New("the flags --help and -h are reserved for the command line")
	case !flagShorthand.MatchString(s.shorthand):
		return fmt.Errorf("bad shorthand %q: expected one letter or digit", s.shorthand)
	}
	env := EnvName("", s.flag)
	if other := ss.byFlag[s.flag]; other != nil {
		return fmt.Errorf("the flag --%s is already defined by %v", s.flag, other.block)
	}
	if other := ss.byEnv[env]; other != nil {
		return fmt.Errorf("the flag --%s has the same environment variable, …%s, as --%s of %v", s.flag, env, other.flag, other.block)
	}
	if other := ss.byShorthand[s.shorthand]; other != nil {
		return fmt.Errorf("the shorthand -%s is already the shorthand of --%s of %v", s.shorthand, other.flag, other.block)
	}
	return nil
}

func (ss *settings) addSetting(s *setting) {
	if ss.byFlag == nil {
		ss.byFlag, ss.byEnv, ss.byShorthand = make(map[string]*setting), make(map[string]*setting), make(map[string]*setting)
	}
	ss.all = append(ss.all, s)
	ss.byFlag[s.flag] = s
	ss.byEnv[EnvName("", s.flag)] = s
	if s.shorthand != "" {
		ss.byShorthand[s.shorthand] = s
	}
}

// RegisterFlags adds the flags of all cells to fs. It fails, and adds none, if fs has one of these names or shorthands.
func (g *Graph) RegisterFlags(fs *pflag.FlagSet) error {
	var errs []error
	for _, s := range g.settings.all {
		if fs.Lookup(s.flag) != nil {
			errs = append(errs, s.block.scope.errorf("%s: the flag --%s already exists", s.block.name, s.flag))
		}
		if s.shorthand != "" && fs.ShorthandLookup(s.shorthand) != nil {
			errs = append(errs, s.block.scope.errorf("%s: the flag -%s already exists", s.block.name, s.shorthand))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for _, s := range g.settings.all {
		s.register(fs)
	}
	return nil
}

// RegisterFlag adds the flag of one setting to fs. The flag may be in several sets, all of which set the same value. It fails if
// there is no such setting, or if fs has a flag of that name.
func (g *Graph) RegisterFlag(fs *pflag.FlagSet, name string) error {
	s := g.settings.byFlag[name]
	if s == nil || fs.Lookup(name) != nil || s.shorthand != "" && fs.ShorthandLookup(s.shorthand) != nil {
		return g.root.errorf("cannot add a flag --%s: expected a setting of that name, and no such flag", name)
	}
	s.register(fs)
	return nil
}

func (s *setting) register(fs *pflag.FlagSet) {
	flag := fs.VarPF(s.value, s.flag, s.shorthand, s.usage)
	flag.NoOptDefVal = s.value.implied
	flag.Deprecated = s.deprecated
	flag.Hidden = s.hidden || s.deprecated != ""
}
