    -- How the short way and the middle way begin a request.
    local cost = unbytes('<d', ARGV[2], 8 * first / states + 1)
    local understood, denied, retry_at = cost > 0, false, 0
    -- A policy that is the only one is read once.
    if run_states == states then of_run = states else run_at, of_run = 3, 0 end
