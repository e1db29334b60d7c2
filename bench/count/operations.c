/* Counts what one operation does to shared memory: its atomic read-modify-writes, the cache lines that it changes, and
 * how many of these lines are also changed by the same operation of another process on a different key. Two processes
 * run each operation once, in turn, one instruction at a time. Prints a table.
 *
 *   cc -Iinclude bench/count/operations.c -Lbuild -lholdfast
 *
 * A store that leaves the value unchanged is not counted. Supports only x86-64: on other processors, prints a message
 * and exits with status 77. */

#define _GNU_SOURCE
#include <holdfast.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef __x86_64__

int main(void) {
  fputs("the instructions of this processor are unknown\n", stderr);
  return 77;
}

#else

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NAME "counted"
#define SIZE (1024 * 1024)
#define LINE 64
#define PAGE 4096
#define FILES 2
#define MAPPINGS 64
#define STEPS 100000
#define FILLERS 1000

static void check(int good, const char* what) {
  if (!good) {
    perror(what);
    exit(1);
  }
}

/* --- the clock ----------------------------------------------------------------------------------------------- */

/* Replaces the library's clocks. The clocks stand still while an operation is traced: a traced operation takes so long
 * that it would otherwise also do work that is due every few milliseconds, such as measuring a lock. */
#define CLOCKS 16
static int stopped;
static struct timespec stopped_at[CLOCKS];

int clock_gettime(clockid_t clock, struct timespec* time) {
  if (!stopped) return (int)syscall(SYS_clock_gettime, clock, time);
  *time = stopped_at[clock];
  return 0;
}

static void stop_clocks(void) {
  for (clockid_t clock = 0; clock < CLOCKS; ++clock) clock_gettime(clock, &stopped_at[clock]);
  stopped = 1;
}

/* --- the operations, in a process that is traced -------------------------------------------------------- */

static holdfast_dict* dict;
static char text[1024];
static char key[32], held_key[32], free_key[32];
static holdfast_lease lease;

#define KEY key, strlen(key)

static void put(int op, int type, size_t length, double exptime) {
  int forcible;
  check(holdfast_store(dict, op, KEY, type, text, length, 1, exptime, 0, &forcible) == HOLDFAST_OK, holdfast_error());
}

static void lock(void) { check(holdfast_lock_try(dict, KEY, 30, 0, 0, &lease) == HOLDFAST_OK, holdfast_error()); }
static void unlock(void) { check(holdfast_unlock(dict, KEY, &lease) == HOLDFAST_OK, holdfast_error()); }
static void lock_and_unlock(void) {
  lock();
  unlock();
}
/* Uses a key without a value: to delete the value would release memory, and the other process would have to look its
 * key up again. */
static void lock_and_unlock_again(void) {
  static holdfast_bound bound;
  const size_t length = strlen(free_key);
  if (!holdfast_lock_again(dict, free_key, length, 30, 0, &bound))
    check(holdfast_lock_bind(dict, free_key, length, 30, 0, 0, &bound) == HOLDFAST_OK, holdfast_error());
  if (!holdfast_unlock_again(dict, free_key, length, &bound))
    check(holdfast_unlock(dict, free_key, length, &bound.lease) == HOLDFAST_OK, holdfast_error());
}
static void refused(void) {
  holdfast_lease none;
  check(holdfast_lock_try(dict, held_key, strlen(held_key), 30, 0, 0, &none) == HOLDFAST_LOCKED, holdfast_error());
}
static void set_number(void) { put(HOLDFAST_SET, HOLDFAST_NUMBER, 0, 0); }
/* Alternates between two times: while the clock is stopped, the same time would result in the same expiry. */
static void set_with_exptime(void) {
  static double exptime = 60;
  exptime = 121 - exptime;
  put(HOLDFAST_SET, HOLDFAST_NUMBER, 0, exptime);
}
static void set_100(void) { put(HOLDFAST_SET, HOLDFAST_STRING, 100, 0); }
static void set_1k(void) { put(HOLDFAST_SET, HOLDFAST_STRING, 1024, 0); }
static void get(void) {
  char buffer[1024];
  holdfast_value value = {.data = buffer, .capacity = sizeof buffer};
  check(holdfast_get(dict, KEY, &value) == HOLDFAST_OK, holdfast_error());
}
static void incr(void) {
  double result;
  int forcible;
  check(holdfast_incr(dict, KEY, 1, 0, 0, 0, &result, &forcible) == HOLDFAST_OK, holdfast_error());
}
static void delete_key(void) { check(holdfast_delete(dict, KEY) == HOLDFAST_OK, holdfast_error()); }
static void add_and_delete(void) {
  put(HOLDFAST_ADD, HOLDFAST_NUMBER, 0, 0);
  delete_key();
}
static void nothing(void) {}

/* `before` runs untraced; then the operation runs three times untraced and once traced. The clocks stop before the
 * third run: it does the work that is due then, and this work does not become due again. */
static const struct {
  const char* what;
  void (*before)(void), (*run)(void);
} operations[] = {
    {"lock + unlock", delete_key, lock_and_unlock},
    {"lock + unlock again", nothing, lock_and_unlock_again},
    {"lock of a held key, refused", nothing, refused},
    {"get, number", set_number, get},
    {"set, number", set_number, set_number},
    {"set with exptime, number", set_number, set_with_exptime},
    {"incr", set_number, incr},
    {"add + delete", delete_key, add_and_delete},
    {"get, string of 100 bytes", set_100, get},
    {"set, string of 100 bytes", set_100, set_100},
    {"set, string of 1 KB", set_1k, set_1k},
};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

/* Runs the operations in this process, and stops where the traced run of each begins and ends. */
static void be_traced(int number) {
  holdfast_options options = {.size = SIZE, .persist = HOLDFAST_TEMPORARY};
  holdfast_lease ignored;
  check(holdfast_open(NAME, strlen(NAME), &options, &dict) == HOLDFAST_OK, holdfast_error());
  /* Creates all entries and then the fillers, so that the entries of the two processes are not adjacent. */
  for (int i = 0; i < OPERATIONS + FILLERS; ++i) {
    snprintf(key, sizeof key, i < OPERATIONS ? "key %d of %d" : "filler %d of %d", i, number);
    set_number();
  }
  snprintf(held_key, sizeof held_key, "held by %d", number);
  snprintf(free_key, sizeof free_key, "free for %d", number);
  check(holdfast_lock_try(dict, held_key, strlen(held_key), 600, 0, 0, &ignored) == HOLDFAST_OK, holdfast_error());
  check(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0, "ptrace");
  for (int i = 0; i < OPERATIONS; ++i) {
    snprintf(key, sizeof key, "key %d of %d", i, number);
    operations[i].before();
    operations[i].run();
    operations[i].run();
    stop_clocks();
    operations[i].run();
    __asm__ volatile("int3");
    operations[i].run();
    __asm__ volatile("int3");
    stopped = 0;
  }
  __asm__ volatile("int3");
  _exit(0);
}

/* --- the shared files, seen from outside ------------------------------------------------------------------ */

static struct {
  char path[512];
  unsigned char *now, *before;
  size_t size;
  unsigned long inode;
} files[FILES];

static void map_file(int i, const char* name) {
  struct stat about;
  snprintf(files[i].path, sizeof files[i].path, "%s/%s", holdfast_directory(), name);
  int file = open(files[i].path, O_RDONLY);
  check(file >= 0 && fstat(file, &about) == 0, files[i].path);
  files[i].size = (about.st_size + PAGE - 1) / PAGE * PAGE;
  files[i].inode = about.st_ino;
  files[i].now = mmap(NULL, files[i].size, PROT_READ, MAP_SHARED, file, 0);
  files[i].before = malloc(files[i].size);
  check(files[i].now != MAP_FAILED && files[i].before != NULL, files[i].path);
  close(file);
}

/* A set of cache lines: one bit for each line of each file. */
typedef struct {
  unsigned char* of[FILES];
} lines;

/* The addresses to which a process has mapped the files. */
typedef struct {
  unsigned long first[MAPPINGS], last[MAPPINGS];
  int count;
} mappings;

static void read_mappings(pid_t pid, mappings* found) {
  char line[1024], maps[64];
  snprintf(maps, sizeof maps, "/proc/%d/maps", (int)pid);
  FILE* list = fopen(maps, "r");
  check(list != NULL, maps);
  found->count = 0;
  while (fgets(line, sizeof line, list)) {
    unsigned long first, last, inode;
    if (sscanf(line, "%lx-%lx %*s %*s %*s %lu", &first, &last, &inode) != 3) continue;
    for (int i = 0; i < FILES; ++i) {
      if (inode != files[i].inode) continue;
      check(found->count < MAPPINGS, "too many mappings");
      found->first[found->count] = first;
      found->last[found->count++] = last;
    }
  }
  fclose(list);
}

static int is_shared(const mappings* all, unsigned long address) {
  for (int i = 0; i < all->count; ++i) {
    if (address >= all->first[i] && address < all->last[i]) return 1;
  }
  return 0;
}

/* Marks the lines that have changed since the last call. */
static void mark_changes(lines* changed) {
  for (int i = 0; i < FILES; ++i) {
    for (size_t page = 0; page < files[i].size; page += PAGE) {
      unsigned char *now = files[i].now + page, *before = files[i].before + page;
      if (memcmp(now, before, PAGE) == 0) continue;
      for (size_t at = 0; at < PAGE; at += LINE)
        changed->of[i][(page + at) / LINE] |= memcmp(now + at, before + at, LINE) != 0;
      memcpy(before, now, PAGE);
    }
  }
}

/* --- instructions ----------------------------------------------------------------------------------------- */

static unsigned long register_of(const struct user_regs_struct* regs, int number) {
  const unsigned long values[] = {regs->rax, regs->rcx, regs->rdx, regs->rbx, regs->rsp, regs->rbp,
                                  regs->rsi, regs->rdi, regs->r8,  regs->r9,  regs->r10, regs->r11,
                                  regs->r12, regs->r13, regs->r14, regs->r15};
  return values[number];
}

/* Returns the address of an operand in memory. `code` points to its ModR/M byte. Returns 0 if the address is relative
 * to the instruction: then the operand is a variable of the program, and its address does not matter. */
static unsigned long address_of(const struct user_regs_struct* regs, const unsigned char* code, int rex) {
  const int mod = code[0] >> 6, rm = code[0] & 7;
  unsigned long address = 0;
  int next = 1, base = rm | (rex & 1) << 3, has_base = 1;
  if (mod == 0 && rm == 5) return 0;
  if (rm == 4) {
    const int sib = code[next++], index = (sib >> 3 & 7) | (rex & 2) << 2;
    if (index != 4) address += register_of(regs, index) << (sib >> 6);
    base = (sib & 7) | (rex & 1) << 3;
    has_base = !((sib & 7) == 5 && mod == 0);
  }
  if (has_base) address += register_of(regs, base);
  if (mod == 1) address += (signed char)code[next];
  if (mod == 2 || !has_base) {
    int displacement;
    memcpy(&displacement, code + next, 4);
    address += displacement;
  }
  return address;
}

/* Returns whether an instruction is an atomic read-modify-write on the files: it has the prefix LOCK, or it is an
 * exchange. */
static int is_atomic(const mappings* all, const struct user_regs_struct* regs, const unsigned char* code) {
  int is_locked = 0, rex = 0;
  for (; *code == 0xF0 || *code == 0xF2 || *code == 0xF3 || *code == 0x66; ++code) is_locked |= *code == 0xF0;
  if ((*code & 0xF0) == 0x40) rex = *code++;
  const int is_exchange = (*code & 0xFE) == 0x86 && code[1] >> 6 != 3;
  code += *code == 0x0F ? 2 : 1;
  return (is_locked || is_exchange) && is_shared(all, address_of(regs, code, rex));
}

/* --- counting --------------------------------------------------------------------------------------------- */

typedef struct {
  int atomics;
  lines changed;
} counts;

static void wait_for_stop(pid_t pid) {
  int status;
  check(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP,
        "the traced process ended");
}

static void go_on(pid_t pid) {
  check(ptrace(PTRACE_CONT, pid, 0, 0) == 0, "ptrace");
  wait_for_stop(pid);
}

/* Counts from the int3 at which the process has stopped to the next int3. */
static void count(pid_t pid, counts* found) {
  mappings all;
  read_mappings(pid, &all);
  for (int i = 0; i < FILES; ++i) memcpy(files[i].before, files[i].now, files[i].size);
  for (int step = 0; step < STEPS; ++step) {
    struct user_regs_struct regs;
    unsigned long words[2];
    check(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0, "ptrace");
    for (int i = 0; i < 2; ++i) words[i] = ptrace(PTRACE_PEEKTEXT, pid, (char*)regs.rip + 8 * i, 0);
    const unsigned char* code = (const unsigned char*)words;
    const int is_end = code[0] == 0xCC;
    found->atomics += is_atomic(&all, &regs, code);
    check(ptrace(PTRACE_SINGLESTEP, pid, 0, 0) == 0, "ptrace");
    wait_for_stop(pid);
    mark_changes(&found->changed);
    if (is_end) return;
  }
  check(0, "an operation that does not end");
}

static pid_t start(int number) {
  const pid_t pid = fork();
  check(pid >= 0, "fork");
  if (pid == 0) be_traced(number);
  wait_for_stop(pid);
  return pid;
}

/* Waits for the end of the process, which might otherwise still hold its locks during the next run. */
static void end(pid_t pid) {
  check(ptrace(PTRACE_CONT, pid, 0, 0) == 0, "ptrace");
  check(waitpid(pid, NULL, 0) == pid, "waitpid");
}

static counts* new_counts(void) {
  counts* found = calloc(1, sizeof *found);
  for (int i = 0; i < FILES; ++i) found->changed.of[i] = calloc(1, files[i].size / LINE + 1);
  return found;
}

static void report(const char* what, const counts* one, const counts* two) {
  int changed = 0, common = 0;
  for (int i = 0; i < FILES; ++i) {
    for (size_t line = 0; line <= files[i].size / LINE; ++line) {
      changed += one->changed.of[i][line];
      common += one->changed.of[i][line] && two->changed.of[i][line];
    }
  }
  printf("| %-27s | %25d | %13d | %30d |\n", what, one->atomics, changed, common);
}

int main(void) {
  const pid_t one = start(0), two = start(1);
  map_file(0, NAME ".dict");
  map_file(1, "processes");
  printf("| %-27s | %25s | %13s | %30s |\n", "operation", "atomic read-modify-writes", "lines changed",
         "of them, by other keys as well");
  puts("| --------------------------- | ------------------------- | ------------- | ------------------------------ |");
  for (int i = 0; i < OPERATIONS; ++i) {
    counts *mine = new_counts(), *theirs = new_counts();
    count(one, mine);
    count(two, theirs);
    report(operations[i].what, mine, theirs);
    go_on(one);
    go_on(two);
  }
  end(one);
  end(two);
  return 0;
}

#endif
