/* Models how processes wait for an exclusive lock and are woken, although processes may die (src/lock, src/wait,
   src/sync/mailbox.cc, src/dict/wait_queue.cc).

   There is one lock. PROCESSES processes with one waiter each take the lock ROUNDS times. Fate kills processes, ends
   leases and sleep intervals, makes waiters time out and drops queues, at any step of any process. Everything that a
   shmtx guards is one step here; shmtx.pml shows that this is sound. A comment next to a step names the function that
   the step models. A new process replaces each killed process, takes any free slot, which may be the dead process's,
   and gives its waiter the same number.

   The model shows:

   - Mutual exclusion: `inside` is the process with a lease that has not ended. A process that takes or claims the lock
     finds `inside` empty.
   - No wake-up is lost for longer than one bounded sleep. Time passes only when no process can take a step
     (STANDSTILL); each such tick ends all sleep intervals. If a process then sleeps although the lock is free, has a
     dead owner, or is granted and not claimed, a wake-up was lost, and the tick must be paid for. A kill pays for
     TICKS_PER_KILL ticks, and a repair that drops the queue for one; nothing else pays. So without a death, no wait
     depends on the clock. After a death, a wait depends on the clock at most twice: once for a note or a wake-up that
     died with its process, and once for a grant to a dead process.
   - Termination: the states have no cycle. (The runner makes Spin search for cycles.) So every run ends, and all
     processes have finished or abandoned all their rounds. With EARLY, sleep intervals may end by themselves at any
     time and any number of times. Then there are cycles, and Spin proves `every_wait_ends` under weak fairness.
   - Overtaking is bounded: `overtaken` counts, for each waiter, the takers that arrived later. The bound is
     kOvertakesMax for each position in the queue, plus kOvertakesMax + 1 for each death, repair, end of a lease, or
     waiter that responds too late.
   - Slow waiters (SLOW) stay away for a long time between a wake-up and the attempt, so they stand aside. The lock is
     not reserved for them while another process sleeps for it, except when their turn is due (DUES), which pays for a
     tick like a death. No process overtakes a slow waiter that is present and has no prompt waiter before it.
   - At the end, no live process owns the lock.

   -DMUTANT_... plants a fault. The runner (`run`, in this directory) requires that Spin finds each fault.

   Not modelled: several waiters of one process (each has its own mailbox entry, and the parking lot's mutex decides
   which waiter reads it); waiters without a position in the queue (they poll); permits; and memory ordering, because
   Spin's memory is sequentially consistent. */

#ifndef PROCESSES
#define PROCESSES 3
#endif
#ifndef SLOTS
#define SLOTS PROCESSES /* with one more, the dead process's slot may stay empty */
#endif
#ifndef ROUNDS
#define ROUNDS 1 /* per process */
#endif
#ifndef OVERTAKES_MAX
#define OVERTAKES_MAX 1 /* kOvertakesMax */
#endif
#ifndef FAIR
#define FAIR 0 /* bit s: the process in slot s requests strict order */
#endif

#ifndef SLOW
#define SLOW 0 /* bit s: the process in slot s is slow (is_prompt() in lock/handoff.h) */
#endif

/* The total number of times that Fate does each of these things. */
#ifndef KILLS
#define KILLS 0
#endif
#ifndef LOOKS
#define LOOKS 0 /* sleep intervals that end while other processes can still take steps */
#endif
#ifndef ENDS
#define ENDS 0 /* expiries of leases and of unclaimed grants */
#endif
#ifndef LEAVES
#define LEAVES 0 /* waits that time out or are cancelled */
#endif
#ifndef REPAIRS
#define REPAIRS 0 /* queues dropped by a repair of the shard */
#endif
#ifndef STALES
#define STALES 0 /* waiters that respond later than kClaimNs after their wake-up, and so have lost their position */
#endif
#ifndef RESTS
#define RESTS 0 /* times that a process holds the lock, or stays away from it, for longer than a sleep interval */
#endif
#ifndef DUES
#define DUES 0 /* times that the lock is reserved for a slow waiter that is absent */
#endif
#ifndef TICKS_PER_KILL
#define TICKS_PER_KILL 2
#endif

#define NOBODY 0
#define TOKEN(slot, generation) (1 + (slot) + SLOTS * (generation))
#define SLOT(token) (((token)-1) % SLOTS)
#define GENERATION(token) (((token)-1) / SLOTS)
#define SAME_GENERATION(token) (gen[SLOT(token)] == GENERATION(token)) /* World::slot() finds the slot */
#define PLACES (PROCESSES + KILLS) /* dead waiters stay in the queue until a process finds them */

#define LIVES(token) (held[SLOT(token)] && SAME_GENERATION(token))
/* Detection of deaths: World::alive() */
#ifdef MUTANT_GENERATION_IGNORED
#define ALIVE(token) (held[SLOT(token)])
#else
#define ALIVE(token) LIVES(token)
#endif
#ifdef MUTANT_CLAIM_BY_SLOT
#define IS_SELF(token) ((token) != NOBODY && SLOT(token) == slot)
#else
#define IS_SELF(token) ((token) == self)
#endif

/* LockFields, and the entry's expiry */
byte owner = NOBODY;
bit reserved = 0; /* whether the lock was granted by a release and is not claimed yet */
bit ended = 0;    /* whether the owner's lease has expired */

/* WaitQueue, in order of arrival. */
byte entries = 0;
byte waiter[PLACES];
byte since[PLACES];  /* arrival */
byte overtakes[PLACES]; /* LockFields::overtakes minus WaiterFields::overtakes */
byte turn[PLACES];   /* WaiterFields::first: 0 never first, 1 found first, 2 first for longer than kOvertakeNs */
bit woken[PLACES];   /* whether a wake-up is under way */
bit here[PLACES];    /* Waiter::present */

/* ProcessSlot, and the kernel's part of it. */
bit held[SLOTS];
byte gen[SLOTS];
bit mail[SLOTS];
bit posted[SLOTS];   /* since mailbox_value() */
bit asleep[SLOTS]; /* the signal word's bit ASLEEP */
bit parked[SLOTS]; /* in futex_wait */

/* Indexed by slot: when the wait began, or 0 if there is no wait. */
byte arrival[SLOTS];
byte arrivals = 0;

/* Variables of Fate, indexed by the number of the process or by slot. */
bit doomed[PROCESSES];
bit over[PROCESSES];
bit resting[PROCESSES];
bit slice_over[SLOTS];
bit leaving[SLOTS];

/* Variables that only the proof uses. */
byte inside = NOBODY;
byte overtaken[SLOTS];
byte finished = 0;
bit present_is_first = 1;
byte blows = 0; /* kills, ends, repairs, and stale notes of wake-ups */
byte stales = 0;
byte paid = 0;  /* for ticks */
byte rests = 0;
byte dues = 0;

hidden byte i, j, c;

/* All functions that follow require a surrounding d_step. */

inline move_entry(from, to) {
  waiter[to] = waiter[from];
  since[to] = since[from];
  overtakes[to] = overtakes[from];
  turn[to] = turn[from];
  woken[to] = woken[from];
  here[to] = here[from]
}

inline clear_entry(at) {
  waiter[at] = NOBODY;
  since[at] = 0;
  overtakes[at] = 0;
  turn[at] = 0;
  woken[at] = 0;
  here[at] = 0
}

inline find_entry(token) { /* sets i to the waiter's position, or to `entries` */
  i = 0;
  do
  :: i < entries && waiter[i] != token -> i++
  :: else -> break
  od
}

inline unlink_at(at) { /* WaitQueue::unlink() */
  j = at;
  do
  :: j + 1 < entries -> move_entry(j + 1, j); j++
  :: else -> break
  od;
  clear_entry(j);
  entries--
}

inline remove_waiter(token) { /* WaitQueue::remove() */
  find_entry(token);
  if
  :: i < entries -> unlink_at(i)
  :: else
  fi
}

inline add_waiter(token, arrived, is_present) { /* WaitQueue::add(); a present waiter has no wake-up under way */
  find_entry(token);
  if
  :: i < entries ->
#ifndef MUTANT_WOKEN_STAYS
     woken[i] = 0
#else
     skip
#endif
     ;
     here[i] = is_present
  :: else ->
     do
     :: i > 0 && since[i - 1] > arrived -> move_entry(i - 1, i); i--
     :: else -> break
     od;
     waiter[i] = token;
     since[i] = arrived;
     overtakes[i] = 0;
     turn[i] = (i == 0 -> 1 : 0);
     woken[i] = 0;
     here[i] = is_present;
     entries++
  fi
}

/* Removes waiters that are gone: their slot belongs to another process, they were woken but did not respond in time
   (`stale`), or they were found dead. The next waiter becomes the first. */
inline find_first() { /* WaitQueue::first(), and may_take() */
  do
  :: entries > 0 && (!SAME_GENERATION(waiter[0]) || (woken[0] && stale) || waiter[0] == dead) -> unlink_at(0); stale = 0
  :: else -> break
  od;
  stale = 0;
  if
  :: entries > 0 && turn[0] == 0 -> turn[0] = 1; overtakes[0] = 0
  :: else
  fi
}

#define IS_FAIR(at) ((FAIR >> SLOT(waiter[at])) & 1)
#ifdef MUTANT_KEPT_FOR_THE_ABSENT
#define IS_AWAY(at) (0)
#else
#define IS_AWAY(at) (((SLOW >> SLOT(waiter[at])) & 1) && !IS_FAIR(at) && !here[at])
#endif

/* turn_of(). Sets c to the position of the waiter whose turn it is, or to `entries`. `due`: the first waiter no
   longer stands aside, because of kShare. */
inline find_turn(fair) {
  find_first();
  c = 0;
  if
  :: !(fair) && entries > 0 && IS_AWAY(0) && !due ->
     do
     :: c < entries && IS_AWAY(c) -> c++
     :: else -> break
     od;
     if
     :: c < entries && IS_FAIR(c) -> c = entries
     :: else
     fi;
     if
     :: c < entries && turn[c] == 0 -> turn[c] = 1; overtakes[c] = 0
     :: else
     fi
  :: else
  fi
}

/* may_overtake(), for a request that came after the waiter at c. `late`: the clock shows that kOvertakeNs is over */
#ifdef MUTANT_PRESENT_IS_OVERTAKEN
#define WAITS_FOR_NOBODY(at) (0)
#else
#define WAITS_FOR_NOBODY(at) (((SLOW >> SLOT(waiter[at])) & 1) != 0 && !IS_FAIR(at))
#endif
#define MAY_OVERTAKE (!late && turn[c] != 2 && overtakes[c] < OVERTAKES_MAX && !IS_FAIR(c) && !WAITS_FOR_NOBODY(c))

/* Sets `next` to the waiter that gets a post, or to NOBODY if a wake-up is already under way. */
inline reserve() {
  owner = waiter[c];
  reserved = 1;
  ended = 0;
  next = (woken[c] -> NOBODY : waiter[c]);
  woken[c] = 1
}

inline offer() { /* the lock has been freed */
  owner = NOBODY;
  reserved = 0;
  ended = 0;
  next = NOBODY;
  find_turn(0);
#ifdef MUTANT_NOBODY_BEHIND_IS_WOKEN
  if
  :: c > 0 -> c = entries
  :: else
  fi;
#endif
  if
  :: c < entries && !MAY_OVERTAKE -> reserve()
  :: c < entries && MAY_OVERTAKE && !woken[c] -> next = waiter[c]; woken[c] = 1
  :: else
  fi;
#ifndef MUTANT_ASIDE_IS_NOT_WOKEN
  if
  :: c > 0 && entries > 0 && !woken[0] -> aside = waiter[0]; woken[0] = 1
  :: else
  fi;
#endif
  late = 0;
  due = 0
}

/* Sets `ready` to whether the waiter that came at arrival[slot] may take the free lock. If not, the first waiter may.
   */
inline may_take() {
  find_turn((FAIR >> slot) & 1);
  ready = 1;
  if
  :: c < entries && since[c] < arrival[slot] ->
     if
     :: MAY_OVERTAKE && !((FAIR >> slot) & 1) ->
#ifndef MUTANT_OVERTAKES_NOT_COUNTED
        overtakes[c]++
#else
        skip
#endif
     :: else ->
#ifndef MUTANT_REFUSED_WITHOUT_GRANT
        reserve();
#endif
        ready = 0
     fi
  :: else
  fi;
  late = 0;
  due = 0
}

inline count_overtaken() {
  i = 0;
  do
  :: i < entries && IS_AWAY(i) -> i++
  :: else -> break
  od;
  present_is_first = (i == entries || !here[i] || since[i] > arrival[slot]);
  assert(present_is_first);
  i = 0;
  do
  :: i < SLOTS ->
     if
     :: arrival[i] != 0 && arrival[i] < arrival[slot] && !((SLOW >> i) & 1) ->
        overtaken[i]++;
        assert(overtaken[i] <= OVERTAKES_MAX * (PROCESSES - 1) + blows * (OVERTAKES_MAX + 1))
     :: else
     fi;
     i++
  :: else -> break
  od
}

inline end_wait() { /* Parker::end() */
  arrival[slot] = 0;
  overtaken[slot] = 0;
  leaving[slot] = 0
}

/* Chooses what the clock shows. Requires a surrounding atomic, and must come before its d_step. */
inline read_clock() {
  if
  :: entries > 0 -> late = 1
  :: late = 0
  fi;
  if
  :: entries > 0 && IS_AWAY(0) && dues < DUES -> due = 1; dues++; paid++
  :: due = 0
  fi;
  if
  :: entries > 0 && woken[0] && stales < STALES -> stale = 1; stales++; blows++
  :: stale = 0
  fi
}

/* post(), in separate steps. Between any two of them, the sender may die, and another process may take the slot. */
inline deposit() {
  mail[SLOT(next)] = 1
}
inline raise_signal() { /* the compare-and-swap, then futex_wake if that cleared ASLEEP */
  if
  :: d_step { asleep[SLOT(next)] -> asleep[SLOT(next)] = 0; posted[SLOT(next)] = 1 }
     parked[SLOT(next)] = 0
  :: d_step { else -> posted[SLOT(next)] = 1 }
  fi
}
inline post_all() {
  post_next();
  if
  :: d_step { aside != NOBODY -> next = aside; aside = NOBODY }
     post_next()
  :: else
  fi
}
inline post_next() {
  if
  :: next == NOBODY
  :: d_step { next != NOBODY && !SAME_GENERATION(next) -> next = NOBODY }
  :: next != NOBODY && SAME_GENERATION(next) ->
#ifdef MUTANT_SIGNAL_BEFORE_MAIL
     raise_signal();
     deposit();
#else
     deposit();
     raise_signal();
#endif
     next = NOBODY
  fi
}

/* Lets the process do other work for longer than a sleep interval. */
inline rest() {
  if
  :: skip
  :: d_step { rests < RESTS -> rests++; resting[me] = 1 }
     !resting[me]
  fi
}

proctype Process(byte me) {
  byte self, slot, holder, dead, next, aside, round;
  bit entered, late, due, stale, ready, present;

life:
  {
    if
    :: atomic { gen[me] == 0 -> slot = me; entered = 1; gen[me] = 1; self = TOKEN(me, 1) }
       goto next_round
    :: else
    fi;
    /* ProcessTable::enter(): the kernel's lock on the slot, an empty mailbox, and then the generation */
    if
    :: atomic { !held[0] -> held[0] = 1; slot = 0; entered = 1 }
    :: atomic { !held[1] -> held[1] = 1; slot = 1; entered = 1 }
#if SLOTS > 2
    :: atomic { !held[2] -> held[2] = 1; slot = 2; entered = 1 }
#endif
#if SLOTS > 3
    :: atomic { !held[3] -> held[3] = 1; slot = 3; entered = 1 }
#endif
    fi;
    d_step { mail[slot] = 0; posted[slot] = 0; asleep[slot] = 0; gen[slot]++; self = TOKEN(slot, gen[slot]) }

next_round:
    rest();
    if
    :: atomic { round == ROUNDS -> held[slot] = 0; entered = 0; over[me] = 1; finished++; goto end }
    :: d_step { else -> round++ }
    fi;

attempt: /* lock_wait() */
#ifdef MUTANT_QUEUED_WITHOUT_CHECK
    if
    :: owner != NOBODY && !ended && owner != self && arrival[slot] == 0 ->
       d_step { arrivals++; arrival[slot] = arrivals }
       d_step { add_waiter(self, arrival[slot], 0) }
       goto sleep
    :: else
    fi;
#endif
    atomic { /* attempt_lock() */
      if
      :: arrival[slot] == 0 -> d_step { arrivals++; arrival[slot] = arrivals } /* Parker::begin() */
      :: else
      fi;
      if
      :: IS_SELF(owner) && reserved ->
         d_step { /* claim_reserved() */
           assert(inside == NOBODY);
           inside = self;
           reserved = 0;
           ended = 0;
           remove_waiter(self);
           find_turn(0);
           dead = NOBODY;
           present = 0;
           end_wait()
         }
         goto hold
      :: else
      fi;
      if
#ifdef MUTANT_BLIND_TAKEOVER
      :: owner == NOBODY || ended || dead != NOBODY ->
#else
      :: owner == NOBODY || ended || owner == dead ->
#endif
         read_clock();
         d_step { owner = NOBODY; reserved = 0; ended = 0; may_take() }
         if
         :: ready ->
            d_step { /* take() */
              assert(inside == NOBODY);
              inside = self;
              owner = self;
              remove_waiter(self);
              find_turn(0);
              count_overtaken();
              dead = NOBODY;
              ready = 0;
              present = 0;
              end_wait()
            }
            goto hold
         :: else
         fi
      :: else
      fi;
      d_step { dead = NOBODY; holder = owner; add_waiter(self, arrival[slot], present) }
    }
    post_all();
    /* find_dead(): asks the kernel without holding the mutex. The next attempt names the owner that was found dead. */
    if
    :: atomic { holder == NOBODY || ALIVE(holder) -> holder = NOBODY }
    :: atomic { else -> dead = holder; holder = NOBODY; goto attempt }
    fi;
    if /* poll_for_turn(), for any length of time */
    :: atomic { present -> present = 0; goto attempt }
    :: else
    fi;

sleep: /* Parker::sleep() */
#ifdef MUTANT_MAIL_BEFORE_SIGNAL
    if
    :: atomic { mail[slot] -> mail[slot] = 0; goto awake }
    :: else
    fi;
    posted[slot] = 0;
#else
    posted[slot] = 0; /* mailbox_value() */
#ifndef MUTANT_NO_SECOND_CHECK
    if /* collect() */
    :: atomic { mail[slot] -> mail[slot] = 0; goto awake }
    :: atomic { else ->
         if
         :: leaving[slot] -> goto leave
         :: else
         fi
       }
    fi;
#endif
#endif
#ifdef MUTANT_SLEEPLESS
    goto awake;
#endif
    if /* sleep_on_mailbox() */
    :: d_step { !posted[slot] && !leaving[slot] -> asleep[slot] = 1; parked[slot] = 1 }
    :: else ->
       if
       :: leaving[slot] -> goto leave
       :: else -> goto sleep
       fi
    fi;
    if
#ifdef EARLY
    :: d_step { parked[slot] -> parked[slot] = 0; slice_over[slot] = 1 }
#endif
    :: !parked[slot]
    fi;
#ifdef MUTANT_NO_SECOND_CHECK
    if
    :: atomic { mail[slot] -> mail[slot] = 0; goto awake }
    :: else
    fi;
#endif
    if
    :: d_step { /* ParkingLot::look_for() */
         slice_over[slot] ->
         slice_over[slot] = 0;
#ifdef MUTANT_DEATH_UNSEEN
         ready = (owner == NOBODY || ended || (owner == self && reserved))
#else
         ready = (owner == NOBODY || ended || (owner == self && reserved) || !ALIVE(owner))
#endif
       }
       if
       :: atomic { ready -> ready = 0 }
       :: else -> goto sleep
       fi
    :: else -> goto sleep
    fi;

awake:
    if
    :: (SLOW >> slot) & 1 -> rest()
    :: else
    fi;
    if
    :: leaving[slot] -> goto leave
    :: else
    fi;
    if /* may_be_present() */
    :: d_step { (SLOW >> slot) & 1 -> present = 1 }
    :: skip
    fi;
    goto attempt;

leave: /* lock_leave() */
    atomic {
      read_clock();
      d_step {
        ready = (owner == self && reserved);
#ifndef MUTANT_LEAVE_KEEPS_GRANT
        if
        :: ready -> owner = NOBODY; reserved = 0
        :: else
        fi;
#endif
        remove_waiter(self);
        end_wait();
        if
#ifdef MUTANT_LEAVE_KEEPS_WAKE_UP
        :: owner == NOBODY && ready -> offer()
#else
        :: owner == NOBODY -> offer() /* this waiter may have been woken to take the free lock */
#endif
        :: else -> late = 0; due = 0; stale = 0
        fi;
        ready = 0;
        present = 0
      }
    }
    post_all();
    goto next_round;

hold:
    rest();
#ifdef MUTANT_POST_BEFORE_RELEASE
    d_step { next = (entries > 0 -> waiter[0] : NOBODY) }
    post_next();
#endif
    atomic { /* unlock() */
      read_clock();
      d_step {
        if
        :: inside == self -> inside = NOBODY
        :: else
        fi;
        if
        :: owner == self -> offer()
#ifdef MUTANT_UNLOCK_UNPROVED
        :: else -> offer()
#else
        :: else -> late = 0; due = 0; stale = 0 /* not_owner */
#endif
        fi
      }
    }
#ifdef MUTANT_POST_BEFORE_RELEASE
    next = NOBODY;
#endif
    post_all();
    goto next_round;
  } unless { doomed[me] };

  /* A killed process takes no further step. Shortly afterwards, the kernel releases its lock on the slot. */
  d_step {
    doomed[me] = 0;
    resting[me] = 0;
    if
    :: entered ->
       leaving[slot] = 0;
       parked[slot] = 0;
       slice_over[slot] = 0;
       arrival[slot] = 0;
       overtaken[slot] = 0;
       if
       :: self != NOBODY && inside == self -> inside = NOBODY
       :: else
       fi
    :: else
    fi
  }
  d_step {
    if
    :: entered -> held[slot] = 0
    :: else
    fi;
    entered = 0;
    self = 0;
    slot = 0;
    holder = 0;
    dead = 0;
    next = 0;
    aside = 0;
    late = 0;
    due = 0;
    stale = 0;
    ready = 0;
    present = 0
  }
  goto life;

end:
  skip
}

/* True if no process can take a step. */
#if SLOTS == 2
#define ALL_PARKED (parked[0] + parked[1])
#elif SLOTS == 3
#define ALL_PARKED (parked[0] + parked[1] + parked[2])
#else
#define ALL_PARKED (parked[0] + parked[1] + parked[2] + parked[3])
#endif
#if PROCESSES == 2
#define ALL_DOOMED (doomed[0] + doomed[1])
#define ALL_RESTING (resting[0] + resting[1])
#else
#define ALL_DOOMED (doomed[0] + doomed[1] + doomed[2])
#define ALL_RESTING (resting[0] + resting[1] + resting[2])
#endif
#define STANDSTILL (ALL_PARKED + ALL_RESTING + finished == PROCESSES && ALL_DOOMED == 0)

/* The things that Fate may do to one process, or to its slot. */
#define KILL(p)                                                      \
  d_step {                                                           \
    kills < KILLS && !over[p] && !doomed[p] -> doomed[p] = 1;        \
    kills++; blows++; paid = paid + TICKS_PER_KILL                   \
  }
#define END_SLICE(s) \
  d_step { looks < LOOKS && parked[s] -> parked[s] = 0; slice_over[s] = 1; looks++ }
#define END_PATIENCE(s) \
  d_step { leaves < LEAVES && arrival[s] != 0 && !leaving[s] -> leaving[s] = 1; parked[s] = 0; leaves++ }

proctype Fate() {
  byte kills = 0, looks = 0, ends = 0, leaves = 0, repairs = 0;

  do
  :: KILL(0)
  :: KILL(1)
#if PROCESSES > 2
  :: KILL(2)
#endif
  :: END_SLICE(0)
  :: END_SLICE(1)
  :: END_PATIENCE(0)
  :: END_PATIENCE(1)
#if SLOTS > 2
  :: END_SLICE(2)
  :: END_PATIENCE(2)
#endif
#if SLOTS > 3
  :: END_SLICE(3)
  :: END_PATIENCE(3)
#endif
  :: d_step { ends < ENDS && owner != NOBODY && !ended && LIVES(owner) ->
       ended = 1; ends++; blows++;
       if
       :: inside == owner -> inside = NOBODY
       :: else
       fi
     }
  :: d_step { repairs < REPAIRS && entries > 0 ->
       do
       :: entries > 0 -> entries--; clear_entry(entries)
       :: else -> break
       od;
       repairs++; blows++; paid++
     }
#ifndef EARLY
  :: d_step { STANDSTILL && finished < PROCESSES -> /* time passes */
       if
       :: ALL_PARKED != 0 && (owner == NOBODY || reserved || ended || !LIVES(owner)) ->
          assert(paid > 0);
          paid--
       :: else -> assert(ALL_RESTING != 0)
       fi;
       j = 0;
       do
       :: j < PROCESSES -> resting[j] = 0; j++
       :: else -> break
       od;
       turn[0] = (turn[0] != 0 -> 2 : 0);
       j = 0;
       do
       :: j < SLOTS ->
#ifndef MUTANT_UNBOUNDED_SLEEP
          slice_over[j] = parked[j];
          parked[j] = 0;
#endif
          j++
       :: else -> break
       od;
       j = 0
     }
#endif
  :: finished == PROCESSES -> break
  od;
  assert(owner == NOBODY || !LIVES(owner))
}

init {
  atomic {
    held[0] = 1;
    held[1] = 1;
#if PROCESSES > 2
    held[2] = 1;
#endif
    run Process(0);
    run Process(1);
#if PROCESSES > 2
    run Process(2);
#endif
    run Fate()
  }
}

#ifdef EARLY
ltl every_wait_ends { <>(finished == PROCESSES) }
#endif
