// Package job runs whatever an application does in the background.
//
// A job starts and stops at the position in the lifecycle at which it was added: a job added by a constructor starts after the
// constructor's dependencies and stops before them. Jobs added once the hive has started start at once and stop with the group,
// which is after everything constructed later than the group. The stop cancels a job's context and waits for the job until the stop
// deadline; a job that is still running then is named in the error.
//
// The table "jobs" lists all jobs, with the number of runs, the result of the last run and the time of the next. Rows are written
// at once while changes are rare, and otherwise in batches, once a second, so that runs cost little. A group remembers only some of
// its ended jobs; see Group.
//
// Every job has a health scope nested in that of its module, named after the job. A panic is an error that carries the stack;
// runtime.Goexit is an error, too.
//
// In profiles a job's goroutine, and those that it starts, have the labels "module" and "job".
package job
