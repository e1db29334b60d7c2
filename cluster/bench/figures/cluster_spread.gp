set output folder."/cluster-spread.svg"
title = "Eight contenders for one lock, on ever more machines"
subtitle = "Held 20 µs, wanted again after 200 µs; on one machine, holdfast asks etcd for nothing"
set xlabel "machines (logarithmic)"
set ylabel "acquisitions per second (logarithmic)"
set logscale y
set yrange [*:*]
