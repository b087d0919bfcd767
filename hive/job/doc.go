// Package job runs whatever an application does in the background.
//
// A job is started and stopped at the place in the lifecycle at which it was added: a job that a constructor adds starts after
// what the constructor needs, and stops before it. Jobs added once the hive has started start at once and stop with the group,
// which is after everything that was constructed later than the group. At the stop a job's context is done and it is waited
// for until the stop deadline; a job that is still running then is named.
//
// All jobs are in the table "jobs", with how often they ran, how the last run ended and when the next is due. Its
// rows are written at once while jobs change rarely, else together, once a second, so that runs cost little. Of what has ended a
// group remembers little; see Group.
//
// Every job has a health scope below that of its module, named after the job. A panic is an error that carries the stack; the
// end of a job's goroutine is one, too.
//
// In profiles a job's goroutine, and those that it starts, have the labels "module" and "job".
package job
