set output folder."/lock-longest-waits.svg"
title = "The longest wait of each contender"
subtitle = "100 contenders in 2 processes; holds of 1 ms, pauses of 20 ms, for 3 s (flock: 100 processes)"
set xlabel "longest wait, or less (logarithmic)"
set ylabel "share of all contenders"
set format y "%g %%"
set xtics ("1 µs" 1e-6, "10 µs" 1e-5, "100 µs" 1e-4, "1 ms" 1e-3, "10 ms" 0.01, "100 ms" 0.1, "1 s" 1, "10 s" 10)
set xrange [0.01:10]
style = "using 1:2 with steps"
