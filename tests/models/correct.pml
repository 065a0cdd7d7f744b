/*
 * Correcting what requests were charged by what they truly cost, as store/correction.cpp and
 * store/local_report.cpp do it.
 *
 * Each request reserves RESERVED units of one limit: in Redis, or in process while Redis is away (the
 * share is the whole quota of one proxy). When it ends it has cost 0 to MOST units. Less than was
 * reserved is given back, more is reported, to the place that has counted it. Redis comes and goes, and
 * may lose its data while it is away. A question may fail though it is carried out. A command waits
 * while Redis is known not to have it; once it has left it may be carried out at once, later, or never,
 * and is never sent again, unless Redis answers that it is not ready and has done nothing. The process
 * may end in a hand-over: what waits in it is lost.
 *
 * Checked in every order of events: no reservation is given back twice, nor to a state that was made
 * anew; what Redis counts is to the unit what was reserved and used, but for what is on its way or was
 * lost, and a loss of a refund only counts too much; what was used is at most the quota of each state
 * and share, and what requests cost more than they reserved. And at the end, where nothing was lost: Redis
 * counts what was used.
 *
 * runs: -DREQUESTS=3 -DRESERVED=1 -DMOST=2 -DQUOTA=2 -DFLAPS=1 -DFAILURES=0 -DLOSSES=0 -DENDS=0
 * runs: -DREQUESTS=2 -DRESERVED=2 -DMOST=3 -DQUOTA=3 -DFLAPS=2 -DFAILURES=1 -DLOSSES=1 -DENDS=0
 * runs: -DREQUESTS=2 -DRESERVED=2 -DMOST=3 -DQUOTA=3 -DFLAPS=2 -DFAILURES=1 -DLOSSES=0 -DENDS=1
 */
mtype = { fresh, denied, by_redis, here_alone, ended_by_redis, ended_here,
          nothing, waits, left_us };

/* Redis */
bool up = true;
byte generation;            /* of its state */
byte count;
/* why it counts that: since the state was made */
byte reserved_by_running;
byte used;                 /* by requests that have ended */
byte orphans;              /* taken for questions whose answers were lost */
byte told;                 /* of what was admitted in process */
byte back_on_its_way;      /* refunds that Redis has not carried out, lost ones included */
byte more_on_its_way;      /* likewise */
byte states = 1;

/* the process */
mtype phase[REQUESTS];
byte taken_in[REQUESTS];    /* generation */
mtype refund[REQUESTS];     /* a refund: it waits here, or has left */
byte refund_units[REQUESTS];
bool was_given[REQUESTS];
byte here;                 /* counted in process */
byte noted;                /* of it, not reported yet */
byte more;                 /* that Redis is to learn of, */
byte more_in;               /* of that state */
mtype word;                 /* a report on its way: */
byte word_more;            /* of what requests cost more, */
byte word_noted;           /* of what was admitted in process */
byte word_in;

byte over;                 /* what requests cost above their reservations, in all */
bool lost;                  /* a command, data, or a process */

byte flaps_left = FLAPS;
byte failures_left = FAILURES;
byte losses_left = LOSSES;
byte ends_left = ENDS;

inline check() {
    assert(count == reserved_by_running + used + orphans + told + back_on_its_way - more_on_its_way);
    assert(count < 100 && back_on_its_way < 100 && more_on_its_way < 100);  /* never below zero */
    assert(reserved_by_running + used + told <= states * QUOTA + QUOTA + over)
}

inline begin_here(r) {
    if
    :: here + RESERVED <= QUOTA ->
        here = here + RESERVED;
        noted = noted + RESERVED;
        phase[r] = here_alone
    :: else -> phase[r] = denied
    fi
}

inline begin(r) {
    if
    :: up && count + RESERVED <= QUOTA ->
        count = count + RESERVED;
        reserved_by_running = reserved_by_running + RESERVED;
        taken_in[r] = generation;
        phase[r] = by_redis
    :: up && count + RESERVED > QUOTA -> phase[r] = denied
    :: up && failures_left > 0 ->
        failures_left--;
        if
        :: count + RESERVED <= QUOTA -> count = count + RESERVED; orphans = orphans + RESERVED
        :: true
        fi;
        begin_here(r)
    :: !up -> begin_here(r)
    fi;
    check()
}

inline end_of_redis(r, cost) {
    phase[r] = ended_by_redis;
    if
    :: taken_in[r] == generation ->
        reserved_by_running = reserved_by_running - RESERVED;
        used = used + cost;
        if
        :: cost < RESERVED -> back_on_its_way = back_on_its_way + RESERVED - cost
        :: cost > RESERVED -> more_on_its_way = more_on_its_way + cost - RESERVED
        :: else
        fi
    :: taken_in[r] != generation && cost > RESERVED ->
        /* The rest of it is counted in the new state. */
        used = used + cost - RESERVED;
        more_on_its_way = more_on_its_way + cost - RESERVED
    :: else
    fi;
    if
    :: cost < RESERVED -> refund[r] = waits; refund_units[r] = RESERVED - cost
    :: cost > RESERVED -> more = more + cost - RESERVED; over = over + cost - RESERVED
    :: else
    fi
}

inline end_here(r, cost) {
    phase[r] = ended_here;
    if
    :: cost < RESERVED ->
        here = here - (RESERVED - cost);
        /* What was reported already stays counted in Redis. */
        noted = (noted > RESERVED - cost -> noted - (RESERVED - cost) : 0)
    :: cost > RESERVED ->
        here = here + cost - RESERVED;
        noted = noted + cost - RESERVED;
        over = over + cost - RESERVED
    :: else
    fi
}

/* lua/give_back.lua */
inline give_back(r) {
    if
    :: taken_in[r] == generation ->
        assert(!was_given[r]);
        was_given[r] = true;
        count = count - refund_units[r];
        back_on_its_way = back_on_its_way - refund_units[r]
    :: else
    fi;
    refund[r] = nothing;
    check()
}

/* lua/report.lua */
inline count_report() {
    count = count + word_more + word_noted;
    told = told + word_noted;
    if
    :: word_in == generation -> more_on_its_way = more_on_its_way - word_more
    :: else -> used = used + word_more  /* of a state that is gone: too much is counted */
    fi;
    word = nothing;
    word_more = 0;
    word_noted = 0;
    check()
}

proctype request(byte r) {
    byte cost;
    atomic { begin(r) };
    if
    :: phase[r] == denied
    :: else ->
        atomic {
            select(cost : 0 .. MOST);
            if
            :: phase[r] == by_redis -> end_of_redis(r, cost)
            :: else -> end_here(r, cost)
            fi;
            cost = 0;
            check()
        }
    fi;
end:
    do
    :: atomic { up && refund[r] == waits -> refund[r] = left_us }
    :: atomic { up && refund[r] == left_us -> give_back(r) }
    :: atomic { up && refund[r] == left_us && failures_left > 0 ->  /* Redis is not ready */
        failures_left--; refund[r] = waits }
    :: atomic { refund[r] == left_us && failures_left > 0 ->  /* it never arrives */
        failures_left--; refund[r] = nothing; lost = true }
    od
}

/* The reports. */
proctype reporter() {
end:
    do
    :: atomic { up && word == nothing && more + noted > 0 ->
        word = waits; word_more = more; word_noted = noted; word_in = generation;
        more = 0; noted = 0 }
    :: atomic { word == waits && up -> word = left_us }
    :: atomic { word == waits && !up ->  /* it is kept */
        more = more + word_more; noted = noted + word_noted;
        word = nothing; word_more = 0; word_noted = 0 }
    :: atomic { word == left_us && up -> count_report() }
    :: atomic { word == left_us && up && failures_left > 0 ->  /* Redis is not ready: it is kept */
        failures_left--;
        more = more + word_more; noted = noted + word_noted;
        word = nothing; word_more = 0; word_noted = 0 }
    :: atomic { word == left_us && failures_left > 0 ->
        failures_left--; word = nothing; word_more = 0; word_noted = 0; lost = true }
    od
}

proctype world() {
    byte r;
end:
    do
    :: atomic { up && flaps_left > 0 -> flaps_left--; up = false }
    :: atomic { !up -> up = true }
    :: atomic { !up && losses_left > 0 ->
        losses_left--;
        lost = true;
        generation++;
        states++;
        /* What is on its way will be counted in the new state. */
        used = more + word_more;
        more_on_its_way = more + word_more;
        word_in = generation;
        count = 0; reserved_by_running = 0; orphans = 0; told = 0; back_on_its_way = 0 }
    :: atomic { ends_left > 0 ->
        ends_left--;
        lost = true;
        for (r : 0 .. REQUESTS - 1) {
            if
            :: refund[r] == waits -> refund[r] = nothing
            :: else
            fi
        }
        more = 0;
        noted = 0;
        if
        :: word == waits -> word = nothing; word_more = 0; word_noted = 0
        :: else
        fi }
    od
}

init {
    byte r;
    bool over_all = true;
    atomic {
        word = nothing;
        for (r : 0 .. REQUESTS - 1) { phase[r] = fresh; refund[r] = nothing }
        for (r : 0 .. REQUESTS - 1) { run request(r) }
        run reporter();
        run world()
    }
    up;
    atomic {
        for (r : 0 .. REQUESTS - 1) {
            over_all = over_all && refund[r] == nothing &&
                (phase[r] == denied || phase[r] == ended_by_redis || phase[r] == ended_here)
        }
        over_all = over_all && word == nothing && more == 0 && noted == 0;
        if
        :: over_all && !lost && orphans == 0 ->
            assert(back_on_its_way == 0 && more_on_its_way == 0);
            /* Refunds of what had been reported already leave too much counted, never too little. */
            assert(count == used + told && told >= here)
        :: else
        fi
    }
}
