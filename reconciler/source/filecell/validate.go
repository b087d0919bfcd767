package filecell

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/reconciler/source/file"
)

// kindsOf has all kinds of documents of a hive.
type kindsOf struct {
	cell.In
	Kinds []file.Kind `group:"document-kinds"`
}

// kinds constructs the kinds of the hive that the command belongs to, and nothing else. They
// need tables but no settings.
func kinds(env *cli.Env) (kinds []file.Kind, err error) {
	err = env.Hive().Invoke(func(of kindsOf) { kinds = of.Kinds })
	return kinds, err
}

// Validation is the JSON output of `validate`.
type Validation struct {
	Files     int            `json:"files"`
	Documents int            `json:"documents"` // including invalid ones
	Problems  []file.Problem `json:"problems"`
}

func validateCommand() cli.CommandOut {
	return cli.NewCommand(func(env *cli.Env) *cobra.Command {
		var format cli.Format
		cmd := &cobra.Command{
			Use:   "validate PATH...",
			Short: "Check documents without an agent",
			Long: `Check documents as an agent does when it reads them for the first time: the same documents are refused, with the same
messages. Each PATH is a file, or a directory of files *.yaml and *.yml. Neither an agent nor the system is accessed.

The exit code is 0 if all documents are valid, and 1 otherwise.`,
			Example: "  validate documents\n  validate links.yaml routes.yaml",
			Args:    cobra.MinimumNArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				kinds, err := kinds(env)
				if err != nil {
					return err
				}
				v, err := validate(kinds, args)
				if err != nil {
					return err
				}
				return v.print(cmd.OutOrStdout(), format)
			},
		}
		format.AddFlag(cmd.Flags())
		return cmd
	})
}

func validate(kinds []file.Kind, paths []string) (Validation, error) {
	files, err := file.Load(paths...)
	if err != nil {
		return Validation{}, err
	}
	contents, err := file.Read(kinds, files)
	return Validation{contents.Files, contents.Documents, append([]file.Problem{}, contents.Problems...)}, err
}

// print writes the result. It returns an error with the exit code if documents are not valid.
func (v Validation) print(w io.Writer, format cli.Format) error {
	if err := v.write(w, format); err != nil || len(v.Problems) == 0 {
		return err
	}
	return &cli.ExitError{Code: 1}
}

func (v Validation) write(w io.Writer, format cli.Format) error {
	if format == cli.FormatJSON {
		return format.Print(w, v, nil, nil)
	}
	var text strings.Builder
	for _, p := range v.Problems {
		text.WriteString(p.String() + "\n")
	}
	text.WriteString(v.summary() + "\n")
	_, err := io.WriteString(w, cli.Printable(text.String()))
	return err
}

func (v Validation) summary() string {
	in := count(v.Documents, "document") + " in " + count(v.Files, "file")
	switch {
	case len(v.Problems) > 0:
		return fmt.Sprintf("%s found in %s", count(len(v.Problems), "problem"), in)
	case v.Documents == 1:
		return in + " is valid"
	}
	return in + " are valid"
}

func schemaCommand() cli.CommandOut {
	return cli.NewCommand(func(env *cli.Env) *cobra.Command {
		return &cobra.Command{
			Use:   "schema [KIND...]",
			Short: "Print the JSON Schema of documents, for editors",
			Long: `Print a JSON Schema (draft 2020-12) of the documents of all kinds, or of the given ones: their fields, the types of the
fields, and which fields are required. Editors with a YAML language server use it to complete and check documents.`,
			Example: "  schema >statehive.schema.json\n  schema route",
			RunE: func(cmd *cobra.Command, args []string) error {
				kinds, err := kinds(env)
				if err != nil {
					return err
				}
				if kinds, err = only(kinds, args); err != nil {
					return err
				}
				return cli.WriteJSON(cmd.OutOrStdout(), file.Schema(kinds), "  ")
			},
		}
	})
}

// only returns the kinds with the given names, or all kinds if there are no names.
func only(all []file.Kind, names []string) ([]file.Kind, error) {
	if len(names) == 0 {
		return all, nil
	}
	var some []file.Kind
	for _, name := range names {
		i := slices.IndexFunc(all, func(k file.Kind) bool { return k.Name() == name })
		if i < 0 {
			known := make([]string, len(all))
			for i, k := range all {
				known[i] = k.Name()
			}
			slices.Sort(known)
			return nil, fmt.Errorf("there is no kind %q; the kinds are: %s", name, strings.Join(known, ", "))
		}
		some = append(some, all[i])
	}
	return some, nil
}
