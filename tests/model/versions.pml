/* Models the version of a key, and the wait for a change (src/dict/versions.h, src/lock/changes.cc).

   WRITERS processes change the value CHANGES times each. WAITERS processes copy the value and wait until it changes.
   Fate kills writers, at any step, and lets time pass. Each critical section of the mutex is one step here; shmtx.pml
   shows that this is sound, and wait_core.pml shows that no post is lost. A comment next to a step names the function
   that the step models.

   The model shows:

   - No change is lost: whenever a waiter finds the even version that it knows, its copy is the current value.
   - No wait is longer than necessary: time passes only when no process can take a step (STANDSTILL). If a waiter then
     sleeps although its copy is old, the tick must be paid for, and a kill pays for one tick. So a waiter sleeps
     forever only if nothing changes. If the writer of a change died, the waiter notices the change after at most one
     bounded check.
   - Every run ends: the states have no cycle.

   -DMUTANT_... plants a fault. The runner (`run`, in this directory) requires that Spin finds each fault.

   Not modelled: flushes, which are one atomic step of a word that is part of the version; evictions, which are changes
   by another key's writer; several waiters in one process; and memory ordering, which tests/weak checks. */

#ifndef WRITERS
#define WRITERS 2
#endif
#ifndef WAITERS
#define WAITERS 1
#endif
#ifndef CHANGES
#define CHANGES 1
#endif
#ifndef KILLS
#define KILLS 0
#endif

/* If the slots of two waiters are equal modulo 64, the waiters share a bit. */
#ifdef SHARED_BIT
#define BIT(w) 1
#else
#define BIT(w) (1 << (w))
#endif

#define NOBODY 255
#define IS_ODD(version) ((version) % 2 == 1)

byte version = 0; /* Stripe::version */
byte watchers = 0; /* Stripe::watchers */
byte value = 0;
byte owner = NOBODY; /* of the mutex */
bit dirty = 0; /* whether the last owner died in its critical section */

bit mail[WAITERS];
bit parked[WAITERS];
byte known[WAITERS];
byte copy[WAITERS];

bit doomed[WRITERS];
bit over[WRITERS];
byte finished = 0; /* writers */
bit closed = 0;
byte paid = 0; /* for ticks */

inline repair() {
#ifdef MUTANT_REPAIR_KEEPS_VERSION
  if
  :: dirty && IS_ODD(version) -> version = version - 1
  :: else
  fi;
#else
  if
  :: dirty -> version = (version | 1) + 1
  :: else
  fi;
#endif
  dirty = 0
}

proctype Writer(byte me) {
  byte round = 0;
  byte taken = 0;

  {
    do
    :: round < CHANGES ->
#ifdef MUTANT_WAKE_BEFORE_CHANGE
       d_step { taken = watchers; watchers = 0 }
#endif
       d_step { owner == NOBODY -> owner = me }
       if /* ShardGuard: a repair takes several steps, but has the same effect at any of them */
       :: dirty -> d_step { repair() }
       :: else
       fi;
#ifndef MUTANT_NO_ODD
       version = version | 1; /* Stripes::begin_change() */
#endif
#ifdef MUTANT_EVEN_BEFORE_COMMIT
       version = (version | 1) + 1;
       value = value + 1;
#else
       value = value + 1; /* commit() */
       version = (version | 1) + 1; /* Stripes::end_change() */
#endif
       owner = NOBODY;
#ifndef MUTANT_WAKE_BEFORE_CHANGE
       d_step { taken = watchers; watchers = 0 } /* wake_watchers_of() */
#endif
       if
       :: taken & BIT(0) -> mail[0] = 1
       :: else
       fi;
#if WAITERS > 1
#ifndef MUTANT_ONE_SLOT_FOR_EACH_BIT
       if
       :: taken & BIT(1) -> mail[1] = 1
       :: else
       fi;
#endif
#endif
       taken = 0;
       round++
    :: else -> break
    od
  } unless { doomed[me] };

  /* The process has finished, or was killed. */
  atomic {
    doomed[me] = 0;
    over[me] = 1;
    finished++;
    if
    :: owner == me -> owner = NOBODY; dirty = 1
    :: else
    fi
  }
}

/* Segment::settled_version_of(), which repairs the shard if the mutex's owner is dead. */
inline settle() {
  now = version;
#ifndef MUTANT_ODD_BELIEVED
  if
  :: d_step { IS_ODD(now) && owner == NOBODY -> repair(); now = version }
  :: d_step { IS_ODD(now) && owner != NOBODY -> now = version }
  :: !IS_ODD(now)
  fi
#endif
}

proctype Waiter(byte me) {
  byte now = 0;

read: /* Dictionary::get_changed() */
#ifdef MUTANT_VALUE_FIRST
  copy[me] = value;
#endif
  settle();
  known[me] = now;
#ifndef MUTANT_VALUE_FIRST
  copy[me] = value;
#endif

step: /* watch_changes() */
#ifdef MUTANT_COMPARE_FIRST
  settle();
  watchers = watchers | BIT(me);
#else
  watchers = watchers | BIT(me); /* announce() */
  settle();
#endif
  if
  :: now != known[me] -> now = 0; goto read
  :: now == known[me]
  fi;

sleep:
  now = 0;
  if
  :: d_step { mail[me] -> mail[me] = 0 }
  :: d_step { !mail[me] -> parked[me] = 1 }
     if
     :: d_step { mail[me] -> mail[me] = 0; parked[me] = 0 }
     :: d_step { !parked[me] && !closed } /* a bounded sleep is over */
     :: closed -> goto end
     fi
  fi;

  /* peek_version() */
#ifndef MUTANT_BIT_NOT_SET_AGAIN
  watchers = watchers | BIT(me);
#endif
  if
#ifdef MUTANT_ODD_BELIEVED
  :: d_step { version == known[me] -> now = 1 }
  :: d_step { version != known[me] -> now = 0 }
#else
  :: d_step { version == known[me] && !IS_ODD(version) -> now = 1; assert(copy[me] == value) }
  :: d_step { version != known[me] || IS_ODD(version) -> now = 0 }
#endif
  fi;
  if
  :: now == 1 -> goto sleep
  :: else -> goto step
  fi;

end:
  skip
}

#define IS_CONTENT(w) (copy[w] == value && version == known[w] && !IS_ODD(version))
#define IS_ASLEEP(w) (parked[w] && !mail[w])
#if WAITERS > 1
#define ALL_ASLEEP (IS_ASLEEP(0) && IS_ASLEEP(1))
#define ALL_CONTENT (IS_CONTENT(0) && IS_CONTENT(1))
#else
#define ALL_ASLEEP IS_ASLEEP(0)
#define ALL_CONTENT IS_CONTENT(0)
#endif
#define STANDSTILL (finished == WRITERS && ALL_ASLEEP)

#define KILL(p) d_step { kills < KILLS && !over[p] && !doomed[p] -> doomed[p] = 1; kills++; paid++ }

proctype Fate() {
  byte kills = 0;

  do
  :: KILL(0)
#if WRITERS > 1
  :: KILL(1)
#endif
  :: d_step { STANDSTILL && !ALL_CONTENT -> /* time passes */
       assert(paid > 0);
       paid--;
#ifndef MUTANT_UNBOUNDED_SLEEP
       parked[0] = 0
#if WAITERS > 1
       ; parked[1] = 0
#endif
#endif
     }
  :: d_step { STANDSTILL && ALL_CONTENT -> closed = 1 } break
  od
}

init {
  atomic {
    run Writer(0);
#if WRITERS > 1
    run Writer(1);
#endif
    run Waiter(0);
#if WAITERS > 1
    run Waiter(1);
#endif
    run Fate()
  }
}
