set output folder."/cluster-spread.svg"
title = "One lock with eight contenders, spread over more and more machines"
subtitle = "Holds of 20 µs, pauses of 200 µs; on one machine, holdfast sends no requests to etcd"
set xlabel "machines (logarithmic)"
set ylabel "acquisitions per second (logarithmic)"
set logscale y
set yrange [*:*]
