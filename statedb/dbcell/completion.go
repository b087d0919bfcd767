package dbcell

import "github.com/spf13/cobra"

// completeTable completes the name of a table by those of the running agent. Without one there is nothing to complete.
func (g *getter) completeTable(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := getTables(cmd.Context(), g.env.Client())
	if err != nil {
		cobra.CompErrorln(err.Error())
		return nil, cobra.ShellCompDirectiveError | cobra.ShellCompDirectiveNoFileComp
	}
	return list.names(), cobra.ShellCompDirectiveNoFileComp
}
