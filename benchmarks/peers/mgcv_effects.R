# Fits of R's mgcv to the problems of `mgcv_effects.py`, and the predictor at the rows held out.
#
#     Rscript mgcv_effects.R areas|slopes|trend|curves      # in a folder with <name>_train.csv, <name>_test.csv
#
# By fREML of `bam(discrete = TRUE)`, the trend by REML; mean, standard error and noise in <name>_mgcv.csv.
suppressMessages(library(mgcv))
name <- commandArgs(TRUE)[1]
d <- read.csv(paste0(name, "_train.csv"))
new <- read.csv(paste0(name, "_test.csv"))
if (name == "areas") {
  pairs <- read.csv("areas_pairs.csv")
  levels <- sort(unique(c(pairs$area, pairs$neighbour)))
  nb <- setNames(lapply(levels, function(a)
    as.character(c(pairs$neighbour[pairs$area == a], pairs$area[pairs$neighbour == a]))), levels)
  d$area <- factor(d$area, levels)
  new$area <- factor(new$area, levels)
  d$own <- d$area
  new$own <- new$area
  m <- bam(y ~ x + s(area, bs = "mrf", xt = list(nb = nb)) + s(own, bs = "re") + offset(log(expected)),
           poisson, d, discrete = TRUE, drop.unused.levels = FALSE)
  new$expected <- 1
} else if (name == "slopes") {
  d$g <- factor(d$g)
  new$g <- factor(new$g, levels(d$g))
  m <- bam(y ~ x + s(g, bs = "re") + s(g, x, bs = "re"), data = d, discrete = TRUE)
} else if (name == "trend") {
  m <- gam(y ~ s(t, k = 100), data = d, method = "REML")
} else {
  d$g <- factor(d$g)
  new$g <- factor(new$g, levels(d$g))
  m <- bam(y ~ s(x) + s(x, g, bs = "fs"), binomial, d, discrete = TRUE)
}
p <- predict(m, new, se.fit = TRUE, discrete = FALSE)
write.csv(data.frame(mean = as.numeric(p$fit), sd = as.numeric(p$se.fit), noise = sqrt(m$sig2)),
          paste0(name, "_mgcv.csv"), row.names = FALSE)
