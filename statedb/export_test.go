package statedb

// SetMinWindow makes the window of changes small enough for cursors to outrun
// it in a test. Nobody may write to the table at the same time.
func SetMinWindow(table TableMeta, changes int) { table.Untyped().SetMinWindow(changes) }
