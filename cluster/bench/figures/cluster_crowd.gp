set output folder."/cluster-crowd.svg"
title = "One lock, with one contender on each machine"
subtitle = "Holds of 20 µs, pauses of 200 µs; etcd with one node"
set xlabel "machines (logarithmic)"
set ylabel "acquisitions per second (logarithmic)"
set logscale y
set yrange [*:*]
