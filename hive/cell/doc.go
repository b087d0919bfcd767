// Package cell describes the parts of an application and how they fit together.
//
// A Cell declares what it provides, what it needs and what to run. Cells are plain descriptions: nothing happens until a hive is
// built from them. Package go.uber.org/dig builds the graph; this package adds modules, configuration, and errors that name the
// module, the constructor and its file:line.
//
// # Order
//
// Constructors are lazy: each is called at most once, when an invoked function needs its result, directly or indirectly. Invoked
// functions run in the order of the cells. Lifecycle hooks start in the order in which they were appended, which is the order of
// construction, dependencies first, and stop in reverse.
//
// # Scopes
//
// Every Module is a scope. Provide makes values visible to all modules, ProvidePrivate to its own module and those nested in it. A
// private value hides a public one of the same type. Decorate takes effect in its own module and those nested in it. Every module has
// its own ModuleID, FullModuleID, *slog.Logger (with the attribute "module"), values that the hive adds per module, and values of
// ProvideForModules.
//
// # Names
//
// By convention the function Cell of a package returns the package's cell. A package that others use without a hive leaves its cell to
// a package of its own, whose name ends in cell, such as dbcell of statedb. A main package names the functions that return its own
// cells after their modules, such as scanCell. IDs of modules are lower case, their titles noun phrases.
//
// # Concurrency and errors
//
// Cells are immutable and may be shared by several hives. A fault in the graph is a *GraphError; an error or panic is a *BuildError
// in a constructor or an invoked function, and a *HookError in a hook; a fault in the configuration is a *ConfigError or an
// *UnknownKeyError.
package cell
