// Package job runs whatever an application does in the background.
//
// A job is started and stopped at the place in the lifecycle at which it was added: a job that a constructor adds starts after
// what the constructor needs, and stops before it. Jobs added once the hive has started start at once and stop with the group,
// which is after everything that was constructed later than the group. At the stop a job's context is done and it is waited
// for until the stop deadline; a job that is still running then is named.
//
// All jobs are in the table "jobs", with how often they ran, how the last run ended and when the next is due.
//
// Every job has a health scope below that of its module, named after the job. A panic is an error that carries the stack.
package job
