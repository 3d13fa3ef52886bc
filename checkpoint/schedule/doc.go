// Package schedule says when a cut is due: at an anchor and whole periods after it, in UTC, or as soon as enough rows
// wait. The anchor and the last cut are kept in Postgres.
//
// `0 */5 * * *` is not every five hours (it fires at 20:00 and at 00:00), and `@every 5h` begins anew at every
// start of the process. Due is a pure function; cron.Cron only wakes the loop, and only on real time.
package schedule
