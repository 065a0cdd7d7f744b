/*
 * Counting in process while Redis is away, and reporting it afterwards, as store/limiter.cpp and
 * store/local_report.cpp do it (`on_store_failure: local`).
 *
 * Proxies are asked for units of one limit. Redis admits while it counts less than the quota. It
 * comes and goes, and may lose its data while it is away; a question may fail though it is carried
 * out, at once or later. A proxy that gets no answer counts in process, against the share of one of
 * SEEN proxies, and notes what it admits. When Redis is there, it reports the notes once: a report
 * may be kept because it did not leave, be lost on the way, or arrive, in this window or later.
 *
 * Checked in every order of events: a window admits at most quota x (1 + losses) + the sum of the
 * shares; no unit that was admitted in process is reported twice, and no other; Redis never counts
 * more than its quota and all shares. And at the end, where no data and no message was lost: Redis
 * counts all that was admitted.
 *
 * runs: -DPROXIES=2 -DSEEN=2 -DQUOTA=2 -DASKED=6 -DFLAPS=2 -DFAILURES=1 -DLOSSES=1 -DWINDOWS=1
 * runs: -DPROXIES=2 -DSEEN=2 -DQUOTA=4 -DASKED=7 -DFLAPS=2 -DFAILURES=0 -DLOSSES=0 -DWINDOWS=2
 * runs: -DPROXIES=2 -DSEEN=1 -DQUOTA=2 -DASKED=6 -DFLAPS=1 -DFAILURES=1 -DLOSSES=1 -DWINDOWS=2
 * runs: -DPROXIES=3 -DSEEN=3 -DQUOTA=3 -DASKED=6 -DFLAPS=2 -DFAILURES=0 -DLOSSES=1 -DWINDOWS=1
 */
#define SHARE (QUOTA / SEEN)

mtype = { nothing, packed, left_us };

/* Redis */
bool up = true;
byte count;                     /* units that it counts */
/* of the window that is open */
byte window;
byte admitted, in_redis;        /* units; those that Redis admitted and has not lost */
byte orphans;                   /* taken for questions that no proxy waited for, and not lost */
byte told;                      /* reported, and not lost */
byte losses, words_lost;
/* proxies */
byte here[PROXIES];             /* what it counts in process: never cleared but by time */
byte noted[PROXIES];            /* what of it is to be told */
byte told_by[PROXIES];
byte late[PROXIES];             /* questions that may still be carried out */
mtype word[PROXIES];            /* a report on its way, */
byte word_units[PROXIES];
byte word_window[PROXIES];

byte asked_left = ASKED;
byte flaps_left = FLAPS;
byte failures_left = FAILURES;
byte losses_left = LOSSES;

inline check() {
    assert(admitted <= QUOTA * (1 + losses) + PROXIES * SHARE);
    assert(count <= QUOTA + PROXIES * SHARE);
    assert(count == in_redis + orphans + told)
}

/* A unit is taken, and no proxy learns of it. */
inline take_unheard() {
    if
    :: count < QUOTA -> count++; orphans++
    :: else
    fi
}

inline count_here(p) {
    if
    :: here[p] < SHARE -> here[p]++; noted[p]++; admitted++
    :: else
    fi
}

inline decide(p) {
    if
    :: up && count < QUOTA -> count++; in_redis++; admitted++
    :: up && count >= QUOTA
    :: up && failures_left > 0 -> failures_left--; take_unheard(); count_here(p)
    :: up && failures_left > 0 -> failures_left--; late[p]++; count_here(p)
    :: !up -> count_here(p)
    fi;
    check()
}

/* The report's script: in the sub-buckets that the units were taken in. */
inline arrive(p) {
    if
    :: word_window[p] == window ->
        count = count + word_units[p];
        told = told + word_units[p];
        told_by[p] = told_by[p] + word_units[p];
        assert(told_by[p] <= here[p])
    :: else
    fi;
    word[p] = nothing;
    check()
}

proctype proxy(byte p) {
end:
    do
    :: atomic { asked_left > 0 -> asked_left--; decide(p) }
    :: atomic { up && noted[p] > 0 && word[p] == nothing ->
        word[p] = packed;
        word_units[p] = noted[p];
        word_window[p] = window;
        noted[p] = 0 }
    :: atomic { word[p] == packed -> word[p] = left_us }
    :: atomic { word[p] == packed ->    /* it did not leave, and is kept */
        word[p] = nothing;
        if
        :: word_window[p] == window -> noted[p] = noted[p] + word_units[p]
        :: else
        fi }
    :: atomic { word[p] == left_us && up -> arrive(p) }
    :: atomic { word[p] == left_us -> word[p] = nothing; words_lost++ }
    :: atomic { late[p] > 0 && up -> late[p]--; take_unheard(); check() }
    :: atomic { late[p] > 0 -> late[p]-- }
    od
}

proctype world() {
    byte p;
end:
    do
    :: atomic { up && flaps_left > 0 -> flaps_left--; up = false }
    :: atomic { !up -> up = true }
    :: atomic { !up && losses_left > 0 ->
        losses_left--;
        losses++;
        count = 0; in_redis = 0; orphans = 0; told = 0 }
    :: atomic { window + 1 < WINDOWS ->
        window++;
        count = 0; in_redis = 0; orphans = 0; told = 0;
        admitted = 0; losses = 0; words_lost = 0;
        for (p : 0 .. PROXIES - 1) {
            here[p] = 0; noted[p] = 0; told_by[p] = 0
        } }
    od
}

init {
    byte p;
    bool over = true;
    atomic {
        for (p : 0 .. PROXIES - 1) { word[p] = nothing }
        for (p : 0 .. PROXIES - 1) { run proxy(p) }
        run world()
    }
    asked_left == 0 && up;
    atomic {
        for (p : 0 .. PROXIES - 1) {
            over = over && noted[p] == 0 && word[p] == nothing
        }
        if
        :: over && losses == 0 && words_lost == 0 -> assert(count >= admitted)
        :: else
        fi
    }
}
