// Package cell describes the parts of an application and how they fit together.
//
// A Cell says what it provides, what it needs and what is to be run. Cells are plain descriptions: nothing happens until a
// hive is made of them. The graph is that of go.uber.org/dig; this package adds modules, configuration and errors that name
// the module, the constructor and the file:line it comes from.
//
// # Order
//
// Constructors are lazy: one is called, at most once, when something that is invoked needs what it makes. Invoked functions
// run in the order of the cells. Lifecycle hooks are started in the order in which they were appended, which is the order of
// construction, dependencies first, and stopped in reverse.
//
// # Scopes
//
// Every Module is a scope. What Provide offers is seen by all modules; what ProvidePrivate offers is seen in its own module
// and those nested in it. A private value hides a public one of the same type. What Decorate changes is seen changed in its own
// module and those nested in it. In every module these are its own: ModuleID, FullModuleID, *slog.Logger (with the attribute
// "module"), what the hive adds per module, and what ProvideForModules makes.
//
// # Concurrency and errors
//
// Cells are immutable and may be shared by several hives. Faults in how they fit together are *GraphError, errors and
// panics of constructors and invoked functions are *BuildError, those of hooks *HookError, and faults in values of the
// configuration *ConfigError and *UnknownKeyError.
package cell
