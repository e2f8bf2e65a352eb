/* Preloaded into a daemon: its host's wall clock steps, and its disk is full, when a file says so.
 *
 * GC_CHAOS_CONTROL names a file of two 64-bit numbers: nanoseconds by which CLOCK_REALTIME is
 * shifted, and whether regular files can be written (0) or the disk is full (1). Time that does not
 * step (CLOCK_MONOTONIC) and sockets are left alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct control {
	volatile int64_t shift;
	volatile int64_t full;
};

static const struct control *control;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("GC_CHAOS_CONTROL");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	if (fd < 0)
		return;
	void *mapped = mmap(0, sizeof(struct control), PROT_READ, MAP_SHARED, fd, 0);
	if (mapped != MAP_FAILED)
		control = mapped;
	close(fd);
}

int clock_gettime(clockid_t id, struct timespec *time)
{
	int result = real_clock_gettime ? real_clock_gettime(id, time)
					: (int)syscall(SYS_clock_gettime, id, time);
	if (result != 0 || id != CLOCK_REALTIME || !control)
		return result;
	int64_t nanos = (int64_t)time->tv_sec * 1000000000 + time->tv_nsec + control->shift;
	if (nanos < 0)
		nanos = 0;
	time->tv_sec = nanos / 1000000000;
	time->tv_nsec = nanos % 1000000000;
	return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
	struct timespec now;
	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &now) != 0)
		return -1;
	time->tv_sec = now.tv_sec;
	time->tv_usec = now.tv_nsec / 1000;
	return 0;
}

ssize_t write(int fd, const void *bytes, size_t len)
{
	struct stat stat;
	if (control && control->full && fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode)) {
		errno = ENOSPC;
		return -1;
	}
	return syscall(SYS_write, fd, bytes, len);
}
