set output folder."/cluster-crowd.svg"
title = "One contender for one lock on each machine"
subtitle = "Held 20 µs, wanted again after 200 µs; etcd of one node"
set xlabel "machines (logarithmic)"
set ylabel "acquisitions per second (logarithmic)"
set logscale y
set yrange [*:*]
