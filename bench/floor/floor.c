/*
 * The floor: what a bounce costs at least. A blocking send and recv loop that
 * speaks iperf 2's bounce message and does nothing else between two bounces than
 * to note how long the last one took.
 *
 * usage: floor ADDRESS PORT COUNT SIZE HOLD(us) QUICKACK(0|1)
 *
 * It writes one line of JSON, then COUNT round trip times as 64 bit nanoseconds in
 * the host's byte order.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t cpu(void)
{
	struct rusage r;
	getrusage(RUSAGE_SELF, &r);
	return ((int64_t)r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000000 +
	       ((int64_t)r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1000;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

int main(int argc, char **argv)
{
	if (argc != 7) {
		fprintf(stderr, "usage: floor ADDRESS PORT COUNT SIZE HOLD QUICKACK\n");
		return 2;
	}
	long count = atol(argv[3]);
	uint32_t size = (uint32_t)atol(argv[4]);
	int quickack = atoi(argv[6]), one = 1;
	if (count < 1 || size < 68 || size > 131072)
		return 2;

	struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2]))};
	if (inet_pton(AF_INET, argv[1], &peer.sin_addr) != 1)
		return 2;

	/* Start bit of 2.1.8 and newer, size, id, flags (quickack), no TOS, hold. */
	unsigned char *msg = malloc(size), *reply = malloc(size);
	int64_t *rtt = malloc(sizeof *rtt * (size_t)count);
	if (!msg || !reply || !rtt)
		die("malloc");
	memset(rtt, 1, sizeof *rtt * (size_t)count); /* no page fault in the loop */
	memset(msg, 0, size);
	uint32_t word = htonl(0x00800000), len = htonl(size), id = htonl(1), hold = htonl((uint32_t)atol(argv[5]));
	memcpy(msg, &word, 4);
	memcpy(msg + 4, &len, 4);
	memcpy(msg + 8, &id, 4);
	memcpy(msg + 44, &hold, 4);
	if (quickack)
		msg[12] = 0x80;

	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0)
		die("socket");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	if (connect(fd, (struct sockaddr *)&peer, sizeof peer) != 0)
		die("connect");

	int64_t cpu0 = 0, wall0 = 0;
	for (long i = -1; i < count; i++) { /* the first one is set-up */
		if (i == 0) {
			cpu0 = cpu();
			wall0 = now();
		}
		int64_t t0 = now();
		if (send(fd, msg, size, MSG_NOSIGNAL) != (ssize_t)size)
			die("send");
		for (uint32_t have = 0; have < size;) {
			ssize_t n = recv(fd, reply + have, size - have, 0);
			if (n <= 0)
				die("recv");
			have += (uint32_t)n;
		}
		int64_t t1 = now();
		if (quickack)
			setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &one, sizeof one);
		if (i >= 0)
			rtt[i] = t1 - t0;
	}
	int64_t wall1 = now(), cpu1 = cpu();

	shutdown(fd, SHUT_WR);
	while (recv(fd, reply, size, 0) > 0)
		;
	close(fd);
	printf("{\"n\":%ld,\"cpu_ns\":%lld,\"wall_ns\":%lld}\n", count, (long long)(cpu1 - cpu0), (long long)(wall1 - wall0));
	fwrite(rtt, sizeof *rtt, (size_t)count, stdout);
	return fflush(stdout) == 0 ? 0 : 1;
}
