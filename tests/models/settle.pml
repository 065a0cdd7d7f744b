/*
 * Settling a reservation over the slots of Redis Cluster, as store/reservation.cpp, lua/claim.lua,
 * lua/settle_less.lua and lua/settle_more.lua do it.
 *
 * Each caller (a replica, or a program that asks again) has a cost of its own, and asks up to CALLS
 * times. It asks slot 0, which decides the cost, and then the others with that cost. A slot corrects
 * its counts and claims the reservation in one script, or says with which cost it was claimed. A
 * command may be lost, be carried out though its answer is lost, or be carried out when no
 * caller waits any more. A node may fail over to a replica that lacks the latest writes: a claim and its
 * correction go together, and the first is not lost without the second.
 *
 * Checked in every order of events: no slot corrects twice what it has; without a failover all slots
 * that are settled have one cost, and what they take is of that cost; a caller that gets 200 knows
 * every slot settled with its cost, and taken if that is odd,
 * and one that gets 409 with another. And at the end: if a caller was answered and nothing failed over, every slot
 * is settled.
 *
 * runs: -DCALLERS=2 -DSLOTS=2 -DCALLS=2 -DLOSSES=2 -DFAILOVERS=0
 * runs: -DCALLERS=2 -DSLOTS=3 -DCALLS=2 -DLOSSES=1 -DFAILOVERS=0
 * runs: -DCALLERS=3 -DSLOTS=2 -DCALLS=1 -DLOSSES=2 -DFAILOVERS=0
 * runs: -DCALLERS=2 -DSLOTS=2 -DCALLS=2 -DLOSSES=1 -DFAILOVERS=1
 */
#define NONE 255
#define LATE (CALLERS * SLOTS)
#define AT(c, s) ((c) * SLOTS + (s))
#define TAKES_TOO(cost) ((cost) % 2 == 1)

byte claim[SLOTS];          /* the cost, or NONE */
byte corrected[SLOTS];      /* how often the counts that the slot has were corrected, */
byte corrected_to[SLOTS];   /* and to which cost */
byte more[SLOTS];           /* the claim of the second command, or NONE */
byte taken[SLOTS];          /* how often the counts that the slot has were taken from by it */
byte late[LATE];            /* the cost of a command that may still be carried out, or NONE */
byte late_more[LATE];       /* likewise, of a second command */
byte losses_left = LOSSES;
byte failovers_left = FAILOVERS;
byte answered;              /* callers that were told 200 or 409 */
byte ended;

/* The script, in one step: `told` is the cost with which the slot is settled. */
inline settle_slot(s, cost, told) {
    if
    :: claim[s] == NONE ->
        claim[s] = cost;
        corrected[s]++;
        corrected_to[s] = cost
    :: else
    fi;
    told = claim[s];
    assert(corrected[s] == 1 && corrected_to[s] == claim[s])
}

inline take_in_slot(s, cost, told) {
    if
    :: more[s] == NONE ->
        more[s] = cost;
        taken[s]++
    :: else
    fi;
    told = more[s];
#if FAILOVERS == 0
    assert(more[s] == claim[s]);
#endif
    assert(taken[s] == 1)
}

inline second_command(c, s, cost, told) {
    if
    :: take_in_slot(s, cost, told)
    :: losses_left > 0 ->
        losses_left--;
        take_in_slot(s, cost, told);
        told = NONE
    :: losses_left > 0 && late_more[AT(c, s)] == NONE ->
        losses_left--;
        late_more[AT(c, s)] = cost;
        told = NONE
    fi
}

/* One command: `told` is NONE if there is no answer. */
inline command(c, s, cost, told) {
    if
    :: settle_slot(s, cost, told)
    :: losses_left > 0 ->                         /* the answer is lost */
        losses_left--;
        settle_slot(s, cost, told);
        told = NONE
    :: losses_left > 0 && late[AT(c, s)] == NONE ->  /* it arrives later, or never */
        losses_left--;
        late[AT(c, s)] = cost;
        told = NONE
    fi
}

proctype caller(byte c) {
    byte call, s, cost, told, result;
    byte decided[SLOTS];
    do
    :: call < CALLS ->
        call++;
        cost = c;
        result = c;
        s = 0;
        do
        :: s < SLOTS ->
            atomic {
                command(c, s, cost, told);
                decided[s] = told;
                if
                :: told == NONE -> result = NONE
                :: told != NONE && s == 0 -> cost = told; result = told
                :: told != NONE && s > 0 && result != NONE && told != cost -> result = told
                :: else
                fi;
                /* Slots after the first are asked whatever the others say. */
                if
                :: s == 0 && told == NONE -> s = SLOTS
                :: else -> s++
                fi
            }
        :: else -> break
        od;
        /* Each slot takes as its own first claim says. */
        s = 0;
        if
        :: result == NONE -> s = SLOTS
        :: else
        fi;
        do
        :: s < SLOTS ->
            atomic {
                if
                :: TAKES_TOO(decided[s]) ->
                    second_command(c, s, decided[s], told);
                    if
                    :: told == NONE -> result = NONE
                    :: told != NONE && result != NONE && told != cost -> result = told
                    :: else
                    fi
                :: else
                fi;
                s++
            }
        :: else -> break
        od;
        if
        :: result != NONE ->
            atomic {
#if FAILOVERS == 0
                s = 0;
                do
                :: s < SLOTS ->
                    assert(claim[s] == result);
                    assert(!TAKES_TOO(result) || more[s] == result);
                    s++
                :: else -> break
                od;
#endif
                answered++
            };
            break
        :: else
        fi
    :: else -> break
    od;
    ended++
}

/* What is late arrives, or does not; a node fails over. */
proctype network() {
    byte i, told;
end:
    do
    :: atomic { i < LATE && late[i] != NONE -> settle_slot(i % SLOTS, late[i], told); late[i] = NONE }
    :: atomic { i < LATE && late[i] != NONE -> late[i] = NONE }
    :: atomic { i < LATE && late_more[i] != NONE ->
        take_in_slot(i % SLOTS, late_more[i], told); late_more[i] = NONE }
    :: atomic { i < LATE && late_more[i] != NONE -> late_more[i] = NONE }
    :: i + 1 < LATE -> i++
    :: i > 0 -> i--
    :: atomic { failovers_left > 0 && claim[i % SLOTS] != NONE ->
        failovers_left--;
        more[i % SLOTS] = NONE;
        taken[i % SLOTS] = 0;
        if
        :: claim[i % SLOTS] = NONE; corrected[i % SLOTS] = 0
        :: true
        fi }
    od
}

init {
    byte i, s;
    atomic {
        for (i : 0 .. LATE - 1) { late[i] = NONE; late_more[i] = NONE }
        for (s : 0 .. SLOTS - 1) { claim[s] = NONE; corrected_to[s] = NONE; more[s] = NONE }
        run network();
        for (i : 0 .. CALLERS - 1) { run caller(i) }
    }
    ended == CALLERS;
    atomic {
        for (s : 0 .. SLOTS - 1) {
            assert(corrected[s] <= 1 && taken[s] <= 1);
#if FAILOVERS == 0
            assert(answered == 0 || claim[s] != NONE);
            assert(claim[s] == NONE || claim[s] == claim[0]);
            assert(answered == 0 || !TAKES_TOO(claim[s]) || more[s] != NONE)
#endif
        }
    }
}
