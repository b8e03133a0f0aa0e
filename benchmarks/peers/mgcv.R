# Fits of R's mgcv to the files of `first_answer.py`, and log densities of the rows held out by gpmcflow.
#
#     Rscript mgcv.R patients|birds|machine|rows      # in a folder with <name>.csv and rows_<name>.csv
#
# Smooth terms of all numbers with mgcv's defaults, penalised away where they are not needed (select), REML.
suppressMessages(library(mgcv))
name <- commandArgs(TRUE)[1]
d <- read.csv(paste0(name, ".csv"), na.strings = "")
if (name == "rows") {
  d$g <- factor(d$g)
  m <- bam((y > 0) ~ s(a) + s(b) + s(g, bs = "re"), binomial, d, discrete = TRUE)
  p <- predict(m, d, type = "response", se.fit = TRUE)
  quit()
}
use <- read.csv(paste0("rows_", name, ".csv"))
if (name == "patients") {
  for (k in c("bmi", "creatinine")) d[[k]][is.na(d[[k]])] <- median(d[[k]], na.rm = TRUE)
  d$day <- as.numeric(as.Date(d$admitted))
  d$y <- as.numeric(d$readmitted == "yes")
}
learning <- d[use$row[use$use == "learning"] - 1, ]
new <- d[use$row[use$use == "held out"] - 1, ]
if (name == "patients") {
  f <- y ~ s(day) + s(age) + s(bmi) + s(creatinine) + s(systolic) + s(prior_admissions, k = 5) +
    s(length_of_stay) + ward + smoker
  m <- gam(f, binomial, learning, method = "REML", select = TRUE)
  p <- dbinom(new$y, 1, predict(m, new, type = "response"), log = TRUE)
} else if (name == "birds") {
  m <- gam(count ~ s(easting, northing) + offset(log(hours)), nb(), learning, method = "REML")
  p <- dnbinom(new$count, mu = predict(m, new, type = "response"), size = m$family$getTheta(TRUE), log = TRUE)
} else {
  f <- vibration ~ s(speed) + s(load) + s(tool_age) + s(coolant) + s(feed) + s(pressure) + s(humidity) +
    s(batch_no)
  m <- gam(f, gaussian, learning, method = "REML", select = TRUE)
  at <- predict(m, new, se.fit = TRUE)
  p <- dnorm(new$vibration, at$fit, sqrt(m$sig2 + at$se.fit^2), log = TRUE)
}
row <- use$row[use$use == "held out"]
write.csv(data.frame(row, log_density = p), paste0("mgcv_", name, ".csv"), row.names = FALSE)
